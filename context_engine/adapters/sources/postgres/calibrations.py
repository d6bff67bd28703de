"""The calibrations of a store: one for each domain, scorer and access class.

Each class is calibrated by itself. It is due again once a fifth of it, or of the domain's sources in it, was added or
removed. Rows are never reused: higher numbers were added since, missing lower ones were removed.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from contextlib import AbstractContextManager, closing
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.adapters.sources.postgres.connection import Servers, Session, failures
from context_engine.adapters.sources.postgres.search import SnapshotView
from context_engine.adapters.sources.stores.adapter_keeping import OFF, ChosenAdapter, scorer_of
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
)
from context_engine.core.protocols import Embedder
from context_engine.core.ranking.scope import SIGNAL_VERSION, mean_calibration

_READ_S: Final = 600.0
_MOST_CHANGE: Final = 0.2
_MOST_PASSAGES: Final = 200
_OF_CLASS: Final = (
    "FROM chunks JOIN documents USING (doc_key) JOIN sources ON sources.source_key = chunks.source_key"
    " WHERE class_key = %(key)s"
)


class CalibratedExtent(NamedTuple):
    """The size of a class: its chunks of some sources, all its chunks, and its highest row number."""

    own: int
    all: int
    last: int


def extent_of(session: Session, key: int, source_ids: Sequence[str], up_to: int | None = None) -> CalibratedExtent:
    """Return the size of a class, counting rows up to a number only."""
    values = {"key": key, "names": list(source_ids), "up_to": up_to}
    query = f"SELECT count(*) FILTER (WHERE source_id = ANY(%(names)s)), count(*), coalesce(max(rid), 0) {_OF_CLASS}"
    limit = "" if up_to is None else " AND rid <= %(up_to)s"
    return CalibratedExtent(*session.execute((query + limit).encode(), values).fetchall()[0])


def plan_of(
    session: Session, domain: str, source_ids: Sequence[str], asked_ids: Collection[str], scorers: Sequence[str],
    *, anew: bool,
) -> CalibrationPlan:  # fmt: skip
    """Return what to calibrate: everything if `anew`, else what has changed enough; see `Calibratable`."""
    rows = session.execute(
        "SELECT DISTINCT source_id, class_key FROM documents JOIN sources USING (source_key) WHERE source_id = ANY(%s)",
        (list(source_ids),),
    ).fetchall()
    held = {name for name, _ in rows}
    names = [name for name in source_ids if name in held]
    keys = sorted({key for _, key in rows})
    stored = _stored(session, domain)
    due = [
        (scorer, key)
        for scorer in scorers
        for key in keys
        if anew or _is_outdated(session, names, key, stored.get((scorer, key)))
    ]
    read = {key: _part(session, key, names, asked_ids) for key in {key for _, key in due}}
    parts = [read[key]._replace(scorer_id=scorer) for scorer, key in due]
    return CalibrationPlan(parts, names, len(scorers) > 1, [*due, *(name for name in stored if name[1] not in keys)])


def keep(
    session: Session,
    domain: str,
    plan: CalibrationPlan,
    found: Sequence[tuple[CalibrationPart, ScopeCalibration]],
) -> None:
    """Replace the calibrations of a plan, in the caller's transaction."""
    for scorer, key in plan.state:
        session.execute(
            "DELETE FROM calibrations WHERE domain = %s AND scorer_id = %s AND class_key = %s", (domain, scorer, key)
        )
    for part, calibration in found:
        session.execute(
            "INSERT INTO calibrations (domain, scorer_id, class_key, calibration, extent) VALUES (%s, %s, %s, %s, %s)",
            (domain, part.scorer_id, part.key, json.dumps(asdict(calibration)), list(part.state)),
        )


def in_force(session: Session, domain: str, scorer: str, classes: Sequence[int]) -> ScopeCalibration | None:
    """Return the mean calibration of some classes; None if none has the current signal version."""
    rows = session.execute(
        "SELECT calibration FROM calibrations WHERE domain = %s AND scorer_id = %s AND class_key = ANY(%s)"
        " ORDER BY class_key",
        (domain, scorer, list(classes)),
    )
    known = [ScopeCalibration(**json.loads(text)) for (text,) in rows]
    return mean_calibration([calibration for calibration in known if calibration.signal == SIGNAL_VERSION])


class _Stored(NamedTuple):
    calibration: ScopeCalibration
    extent: CalibratedExtent


def _stored(session: Session, domain: str) -> dict[tuple[str, int], _Stored]:
    rows = session.execute(
        "SELECT scorer_id, class_key, calibration, extent FROM calibrations WHERE domain = %s", (domain,)
    )
    return {
        (scorer, key): _Stored(ScopeCalibration(**json.loads(text)), CalibratedExtent(*extent))
        for scorer, key, text, extent in rows
    }


def _is_outdated(session: Session, names: Sequence[str], key: int, stored: _Stored | None) -> bool:
    if stored is None or stored.calibration.signal != SIGNAL_VERSION:
        return True
    before, now = stored.extent, extent_of(session, key, names)
    left = extent_of(session, key, names, up_to=before.last)
    changes = ((before.own, now.own, left.own), (before.all, now.all, left.all))
    return any(max(after - kept, was - kept) >= _MOST_CHANGE * was for was, after, kept in changes if after)


def _part(session: Session, key: int, names: Sequence[str], asked_ids: Collection[str]) -> CalibrationPart:
    """Return a class with the passages of the lowest digests, which do not depend on the order of writing."""
    extent = extent_of(session, key, names)
    values = {"key": key, "names": list(names), "ids": list(asked_ids)}
    of_sources = f"{_OF_CLASS} AND source_id = ANY(%(names)s)"
    rows = session.execute(
        f"SELECT indexed_at, chunk_id, content, fields {of_sources} ORDER BY digest LIMIT {_MOST_PASSAGES}".encode(),
        values,
    )
    passages = [decode(tuple(row), indexed_at) for indexed_at, *row in rows]
    held = session.execute(
        (
            f"SELECT DISTINCT id FROM (SELECT unnest(ARRAY[chunk_id, document_id]) AS id {of_sources}) AS held"
            " WHERE id = ANY(%(ids)s)"
        ).encode(),
        values,
    )
    return CalibrationPart(extent.own, passages, frozenset(name for (name,) in held), "", key, extent)


class PostgresCalibrationKeeping:
    """The methods of a `PostgresStore` that make it `Calibratable`."""

    options: SearchOptions
    _servers: Servers
    _embedder: Embedder | None

    if TYPE_CHECKING:

        def _view(self, access: AccessScope | None, timeout_s: float) -> AbstractContextManager[SnapshotView]: ...

        def _rows(self, view: SnapshotView) -> AdapterRows: ...

        def _scorers(self, view: SnapshotView, domain: str, adapter_id: str | None) -> list[str]: ...

        def _chosen(self, view: SnapshotView, domain: str, choice: str) -> ChosenAdapter: ...

        def _asked(self, query: SourceQuery) -> Sequence[float] | None: ...

        def _best_of(self, view: SnapshotView, query: SourceQuery, *args: Any) -> SourceAnswer: ...

    def calibration_plan(
        self,
        domain: str,
        source_ids: Sequence[str],
        asked_ids: Collection[str] = (),
        *,
        anew: bool = False,
        adapter_id: str | None = None,
    ) -> CalibrationPlan:
        """Return the classes and scorers to calibrate (`Calibratable`)."""
        with self._view(None, _READ_S) as view:
            scorers = self._scorers(view, domain, adapter_id)
            return plan_of(view.session, domain, source_ids, asked_ids, scorers, anew=anew)

    def search_part(self, part: CalibrationPart, source_ids: Sequence[str], query: SourceQuery) -> SourceAnswer:
        """Return the best chunks of some sources in one class (`Calibratable`)."""
        vector = self._asked(query) if part.scorer_id else None
        with self._view(None, query.timeout_s) as every:
            name = part.scorer_id.removeprefix(every.state.model_id or "").removeprefix("+")
            adapter = self._chosen(every, query.domain, name or OFF).adapter
            return self._best_of(every._replace(classes=[part.key]), query, source_ids, vector, adapter)

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Replace the calibrations of a plan (`Calibratable`)."""
        with failures(), closing(self._servers.session(write=True)) as session, session.transaction():
            keep(session, domain, plan, found)

    def calibration(
        self, domain: str, *, by_vector: bool = True, access: AccessScope | None = None
    ) -> ScopeCalibration | None:
        """Return the calibration in force for searches of a domain (`Calibratable`)."""
        with self._view(access, _READ_S) as view:
            by_vector = by_vector and self._embedder is not None
            scorer = scorer_of(self._rows(view), domain, self.options.adapter, view.classes) if by_vector else ""
            return in_force(view.session, domain, scorer, view.classes)
