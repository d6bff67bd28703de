"""The calibrations of a store: one for each domain, scorer and access class, in a table."""

from __future__ import annotations

import json
from collections.abc import Collection, Sequence
from dataclasses import asdict
from typing import Final, NamedTuple

from context_engine.adapters.sources.postgres.connection import Session
from context_engine.adapters.sources.postgres.schema import class_key
from context_engine.adapters.sources.stores.calibrating import MOST_PASSAGES, CalibratedExtent, KeptCalibration
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.core.models import (
    AccessClass,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    ClassCalibration,
    ScopeCalibration,
)

_OF_CLASS: Final = (
    "FROM chunks JOIN documents USING (doc_key) JOIN sources ON sources.source_key = chunks.source_key"
    " WHERE class_key = %(key)s"
)
_OF_SOURCES: Final = f"{_OF_CLASS} AND source_id = ANY(%(names)s)"


class StoredTexts(NamedTuple):
    """The chunks of a store in a session's snapshot (`ClassTexts`)."""

    session: Session

    def holding(self, source_ids: Sequence[str]) -> list[tuple[str, int]]:
        """Return (source, key of a class) for each class that holds documents of some sources."""
        return self.session.execute(
            "SELECT DISTINCT source_id, class_key FROM documents JOIN sources USING (source_key)"
            " WHERE source_id = ANY(%s)",
            (list(source_ids),),
        ).fetchall()

    def extent(self, key: int, source_ids: Sequence[str], up_to: int | None = None) -> CalibratedExtent:
        """Return the size of a class, counting rows up to a number only."""
        return extent_of(self.session, key, source_ids, up_to)

    def passages(self, key: int, source_ids: Sequence[str]) -> list[Chunk]:
        """Return the chunks of the lowest digests."""
        query = f"SELECT indexed_at, chunk_id, content, fields {_OF_SOURCES} ORDER BY digest LIMIT {MOST_PASSAGES}"
        rows = self.session.execute(query.encode(), {"key": key, "names": list(source_ids)})
        return [decode(tuple(row), indexed_at) for indexed_at, *row in rows]

    def held_ids(self, key: int, source_ids: Sequence[str], asked_ids: Collection[str]) -> frozenset[str]:
        """Return those of some ids that chunks and documents of a class have."""
        rows = self.session.execute(
            (
                f"SELECT DISTINCT id FROM (SELECT unnest(ARRAY[chunk_id, document_id]) AS id {_OF_SOURCES}) AS held"
                " WHERE id = ANY(%(ids)s)"
            ).encode(),
            {"key": key, "names": list(source_ids), "ids": list(asked_ids)},
        )
        return frozenset(name for (name,) in rows)


def extent_of(session: Session, key: int, source_ids: Sequence[str], up_to: int | None = None) -> CalibratedExtent:
    """Return the size of a class, counting rows up to a number only."""
    values = {"key": key, "names": list(source_ids), "up_to": up_to}
    query = f"SELECT count(*) FILTER (WHERE source_id = ANY(%(names)s)), count(*), coalesce(max(rid), 0) {_OF_CLASS}"
    limit = "" if up_to is None else " AND rid <= %(up_to)s"
    return CalibratedExtent(*session.execute((query + limit).encode(), values).fetchall()[0])


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
        _add(session, domain, part.scorer_id, part.key, calibration, part.state)


def keep_copied(session: Session, domain: str, source_ids: Sequence[str], found: Sequence[ClassCalibration]) -> None:
    """Replace the calibrations of a domain, if any are given; they count as measured on the documents as they are.

    Args:
        session: the writer's, in a transaction.
        source_ids: the domain's sources.
    """
    if found:
        session.execute("DELETE FROM calibrations WHERE domain = %s", (domain,))
    for access, calibration in found:
        key = class_key(session, access)
        _add(session, domain, calibration.model_id, key, calibration, extent_of(session, key, source_ids))


def _add(
    session: Session, domain: str, scorer: str, key: int, calibration: ScopeCalibration, extent: CalibratedExtent
) -> None:
    session.execute(
        "INSERT INTO calibrations (domain, scorer_id, class_key, calibration, extent) VALUES (%s, %s, %s, %s, %s)",
        (domain, scorer, key, json.dumps(asdict(calibration)), list(extent)),
    )


def kept(session: Session, domain: str) -> dict[tuple[str, int], KeptCalibration]:
    """Return the calibrations of a domain, by scorer and class."""
    rows = session.execute(
        "SELECT scorer_id, class_key, calibration, extent FROM calibrations WHERE domain = %s", (domain,)
    )
    return {
        (scorer, key): KeptCalibration(ScopeCalibration(**json.loads(text)), CalibratedExtent(*extent))
        for scorer, key, text, extent in rows
    }


def class_calibrations(session: Session, domain: str) -> list[ClassCalibration]:
    """Return the calibrations of a domain."""
    rows = session.execute(
        "SELECT rules, classification, calibration FROM calibrations JOIN classes USING (class_key) WHERE domain = %s"
        " ORDER BY scorer_id, class_key",
        (domain,),
    )
    return [
        ClassCalibration(AccessClass.of(rules, name), ScopeCalibration(**json.loads(text)))
        for rules, name, text in rows
    ]
