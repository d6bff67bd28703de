"""Calibration of a base: the partitions that are due, and the stored results."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterator, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.adapters.sources.local import partitions, schema
from context_engine.adapters.sources.local.candidates import LocalQuery
from context_engine.adapters.sources.local.partitions import StoredCalibration, adapter_rows, readable
from context_engine.adapters.sources.local.queries import text_query
from context_engine.adapters.sources.local.reader import Viewer
from context_engine.adapters.sources.local.search import best_of
from context_engine.adapters.sources.local.view import View
from context_engine.adapters.sources.stores.adapter_keeping import scorer_of
from context_engine.adapters.sources.stores.calibrating import (
    MOST_PASSAGES,
    CalibratedExtent,
    KeptCalibration,
    plan_of,
)
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


class _PartState(NamedTuple):
    """A partition's extent, and the adapter under which its vectors are compared, or None."""

    extent: CalibratedExtent
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
            kept = {
                (row.calibration.model_id, row.partition): KeptCalibration(
                    row.calibration, CalibratedExtent(row.calibration.chunks, row.base_chunks, row.last_rid)
                )
                for row in partitions.read_all(connection)
                if row.domain == domain
            }
            plan = plan_of(_BaseTexts(connection), kept, source_ids, asked_ids, list(scorers), anew=anew)
        parts = [part._replace(state=_PartState(part.state, scorers[part.scorer_id])) for part in plan.parts]
        return plan._replace(parts=parts, state=_PlanState(state.index_number, plan.state))

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
            StoredCalibration(domain, part.key, calibration, extent.all, extent.last)
            for part, calibration in found
            for extent in [part.state.extent]
        ]
        keys = [(domain, scorer_id, key) for scorer_id, key in plan.state.gone]
        partitions.replace(self.path, plan.state.index_number, keys, stored)


class _BaseTexts(NamedTuple):
    """The chunks of a base in a snapshot (`ClassTexts`)."""

    connection: sqlite3.Connection

    def holding(self, source_ids: Sequence[str]) -> list[tuple[str, int]]:
        return partitions.holding(self.connection, source_ids)

    def extent(self, key: int, source_ids: Sequence[str], up_to: int | None = None) -> CalibratedExtent:
        return partitions.extent_of(self.connection, source_ids, key, up_to=up_to)

    def passages(self, key: int, source_ids: Sequence[str]) -> list[Chunk]:
        rows = self.connection.execute(
            "SELECT chunk_id, content, fields, indexed_at FROM chunks JOIN documents USING (doc_key)"
            " JOIN sources USING (source_key) WHERE removed IS NULL AND partition_key = ?"
            " AND source_id IN (SELECT value FROM json_each(?)) ORDER BY digest LIMIT ?",
            (key, json.dumps(source_ids), MOST_PASSAGES),
        )
        return [decode(row[:3], row[3]) for row in rows]

    def held_ids(self, key: int, source_ids: Sequence[str], asked_ids: Collection[str]) -> frozenset[str]:
        if not asked_ids:
            return frozenset()
        among = (
            "JOIN sources USING (source_key) WHERE removed IS NULL AND partition_key = :partition"
            " AND source_id IN (SELECT value FROM json_each(:sources)) AND {} IN (SELECT value FROM json_each(:ids))"
        )
        rows = self.connection.execute(
            f"SELECT document_id FROM documents {among.format('document_id')}"
            f" UNION SELECT chunk_id FROM chunks JOIN documents USING (doc_key) {among.format('chunk_id')}",
            {"partition": key, "sources": json.dumps(source_ids), "ids": json.dumps(sorted(asked_ids))},
        )
        return frozenset(name for (name,) in rows)
