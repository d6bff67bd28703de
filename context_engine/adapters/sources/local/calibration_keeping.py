"""Calibration of a base: the partitions that are due, and the stored results."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.adapters.sources.local import partitions, schema
from context_engine.adapters.sources.local.candidates import LocalQuery
from context_engine.adapters.sources.local.partitions import Extent, StoredCalibration, adapter_rows, readable
from context_engine.adapters.sources.local.queries import text_query
from context_engine.adapters.sources.local.reader import Viewer
from context_engine.adapters.sources.local.search import best_of
from context_engine.adapters.sources.local.view import View
from context_engine.adapters.sources.stores.adapter_keeping import scorer_of
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.query_vectors import QueryVectors
from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
    StoredAdapter,
)

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter


_QUICK: Final = SearchOptions(section_weight=0.0, sibling_weight=0.0, depth=5)
"""For a search by text only: the signal does not depend on the ranking, so smoothing is skipped."""
_MOST_PASSAGES: Final = 200


class _PartState(NamedTuple):
    """A partition's extent, and the adapter under which its vectors are compared, or None."""

    extent: Extent
    adapter: DomainAdapter | None


class _PlanState(NamedTuple):
    """The index that was read, and the scorer and partition of each calibration to be replaced or deleted."""

    index_number: int
    gone: Sequence[tuple[str, int]]


class CalibrationKeeping:
    """The methods of a `LocalBase` that make it `Calibratable`."""

    path: Path
    options: SearchOptions
    _viewer: Viewer
    _by_words: Viewer
    _vectors: QueryVectors | None

    if TYPE_CHECKING:

        @property
        def model_id(self) -> str: ...

        def vector_model(self) -> str: ...

        def _snapshot(self) -> AbstractContextManager[sqlite3.Connection]: ...

        def adapters(self, domain: str | None = None) -> list[StoredAdapter]: ...

        def read_adapter(self, domain: str, adapter_id: str) -> DomainAdapter | None: ...

        def _adapted(
            self, view: View, question: LocalQuery, domain: str, choice: DomainAdapter | str | None
        ) -> tuple[View, str]: ...

    def calibration(
        self, domain: str, *, by_vector: bool = True, access: AccessScope | None = None
    ) -> ScopeCalibration | None:
        """Return the calibration of a domain's scope threshold, or None.

        Args:
            access: of the caller; None admits everything.
            by_vector: for a search by text and vectors, if the base has any; else by text only.

        Raises:
            StoreError: the base is missing or unreadable.
        """
        with self._snapshot() as connection:
            keys = [partition.key for partition in readable(connection, access)]
            scorer = scorer_of(adapter_rows(connection), domain, self.options.adapter, keys) if by_vector else ""
            return partitions.in_force(connection, domain, scorer, keys)

    def calibration_plan(
        self,
        domain: str,
        source_ids: Sequence[str],
        asked_ids: Collection[str] = (),
        *,
        anew: bool = False,
        adapter_id: str | None = None,
    ) -> CalibrationPlan:
        """Return the partitions and scorers to calibrate: all if `anew`, else those of which a fifth has changed.

        Raises:
            StoreError: the base is missing or unreadable.
        """
        scorers = dict(self._scorers(domain, adapter_id))
        with self._snapshot() as connection:
            state = schema.read_state(connection, self.path)
            names = _held_sources(connection, source_ids)
            due, gone = _due(connection, domain, names, list(scorers), anew=anew)
            read = {key: _read(connection, names, key, asked_ids) for key in {key for _, key in due}}
        parts = [
            read[key]._replace(scorer_id=scorer, state=_PartState(read[key].state, scorers[scorer]))
            for scorer in scorers
            for due_scorer, key in due
            if due_scorer == scorer
        ]
        return CalibrationPlan(parts, names, len(scorers) > 1, _PlanState(state.index_number, [*due, *gone]))

    def _scorers(self, domain: str, adapter_id: str | None) -> Iterator[tuple[str, DomainAdapter | None]]:
        """Yield the scorers: text only, vectors, and vectors under each adapter that is or will be in force."""
        yield "", None
        if not self.model_id or self.model_id != self.vector_model():
            return
        yield self.model_id, None
        wanted = {stored.adapter_id for stored in self.adapters(domain) if stored.in_force}
        for name in sorted(wanted if adapter_id is None else wanted | {adapter_id}):
            adapter = self.read_adapter(domain, name)
            if adapter is not None:
                yield adapter.scorer_id, adapter

    def search_part(self, part: CalibrationPart, source_ids: Sequence[str], query: SourceQuery) -> SourceAnswer:
        """Return the best chunks of some sources in one partition (`Calibratable`).

        Raises:
            EmbedderError, StoreError: the model failed, or the base is unreadable.
        """
        by_words = not part.scorer_id
        options, viewer = (_QUICK, self._by_words) if by_words else (self.options, self._viewer)
        vector = None if by_words or self._vectors is None else self._vectors.ask(query.text, 60.0)
        question = LocalQuery(text_query(query.words or query.text, options, query.expansions), vector, options)
        with viewer.view(only=part.key) as view:
            view, _ = self._adapted(view, question, query.domain, part.state.adapter)
            return best_of(view, question, source_ids, query.top_k)

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Store partitions, unless documents may have moved to other partitions meanwhile (`Calibratable`).

        Raises:
            StoreError: the database cannot be opened.
            sqlite3.Error: the write failed.
        """
        stored = [
            StoredCalibration(domain, part.key, calibration, extent.base_chunks, extent.last_rid)
            for part, calibration in found
            for extent in [part.state.extent]
        ]
        keys = [(domain, scorer_id, key) for scorer_id, key in plan.state.gone]
        partitions.replace(self.path, plan.state.index_number, keys, stored)


def _held_sources(connection: sqlite3.Connection, source_ids: Sequence[str]) -> list[str]:
    rows = connection.execute(
        "SELECT DISTINCT source_id FROM sources LEFT JOIN documents USING (source_key) WHERE removed IS NULL"
    )
    held_names = {name for (name,) in rows}
    return [name for name in source_ids if name in held_names]


def _due(
    connection: sqlite3.Connection, domain: str, names: Sequence[str], scorer_ids: Sequence[str], *, anew: bool
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the scorers and partitions to be calibrated, and those without documents of the domain."""
    wanted = [(scorer, key) for scorer in scorer_ids for key in partitions.partitions_of(connection, names)]
    stored = [row for row in partitions.read_all(connection) if row.domain == domain]
    kept = {
        (row.calibration.model_id, row.partition)
        for row in stored
        if not anew and not partitions.outdated(connection, row, names)
    }
    holding = {partition for _, partition in wanted}
    gone = [(row.calibration.model_id, row.partition) for row in stored if row.partition not in holding]
    return [pair for pair in wanted if pair not in kept], gone


def _read(
    connection: sqlite3.Connection, names: Sequence[str], partition: int, asked_ids: Collection[str]
) -> CalibrationPart:
    """Return a partition with the passages of the lowest digests, which do not depend on the order of writing."""
    extent = partitions.extent_of(connection, names, partition)
    rows = connection.execute(
        "SELECT chunk_id, content, fields, indexed_at FROM chunks JOIN documents USING (doc_key)"
        " JOIN sources USING (source_key) WHERE removed IS NULL AND partition_key = ?"
        " AND source_id IN (SELECT value FROM json_each(?)) ORDER BY digest LIMIT ?",
        (partition, json.dumps(names), _MOST_PASSAGES),
    )
    passages: list[Chunk] = [decode(row[:3], row[3]) for row in rows]
    return CalibrationPart(
        chunks=extent.chunks,
        passages=passages,
        held_ids=_held_ids(connection, names, partition, asked_ids),
        key=partition,
        state=extent,
    )


def _held_ids(
    connection: sqlite3.Connection, names: Sequence[str], partition: int, asked_ids: Collection[str]
) -> frozenset[str]:
    """Return the chunk and document ids among `asked_ids` that the partition has in these sources."""
    if not asked_ids:
        return frozenset()
    asked: Mapping[str, object] = {
        "partition": partition,
        "sources": json.dumps(names),
        "ids": json.dumps(sorted(asked_ids)),
    }
    among = (
        "JOIN sources USING (source_key) WHERE removed IS NULL AND partition_key = :partition"
        " AND source_id IN (SELECT value FROM json_each(:sources)) AND {} IN (SELECT value FROM json_each(:ids))"
    )
    rows = connection.execute(
        f"SELECT document_id FROM documents {among.format('document_id')}"
        f" UNION SELECT chunk_id FROM chunks JOIN documents USING (doc_key) {among.format('chunk_id')}",
        asked,
    )
    return frozenset(name for (name,) in rows)
