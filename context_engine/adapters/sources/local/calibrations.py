"""The calibrations of a base: one row for each domain and embedder, in the base's own database.

How far a base has changed since is read off its row ids, which are never used again: what has a higher one was added,
and what is missing of the others was removed; a replaced document counts once, as the greater of the two.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.adapters.sources.local import schema
from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION

__all__ = ["Extent", "StoredCalibration", "extent_of", "outdated", "read_all", "read_one", "replace"]

_MOST_CHANGE: Final = 0.2
_TABLE: Final = """
CREATE TABLE IF NOT EXISTS calibrations(
    domain TEXT NOT NULL, model_id TEXT NOT NULL, signal TEXT NOT NULL, threshold REAL NOT NULL, strong REAL NOT NULL,
    own INTEGER NOT NULL, judged INTEGER NOT NULL, outside INTEGER NOT NULL, chunks INTEGER NOT NULL,
    base_chunks INTEGER NOT NULL, last_rid INTEGER NOT NULL, PRIMARY KEY (domain, model_id)
)
"""
_COLUMNS: Final = "threshold, strong, signal, model_id, own, judged, outside, chunks"
_LIVE: Final = "FROM chunks JOIN documents USING (doc_key) JOIN sources USING (source_key) WHERE removed IS NULL"


class Extent(NamedTuple):
    """How much a base holds, in chunks.

    Attributes:
        chunks: of some sources; `base_chunks` of all.
        last_rid: the highest row id there is; 0 in an empty base.
    """

    chunks: int
    base_chunks: int
    last_rid: int


class StoredCalibration(NamedTuple):
    """A calibration, for which domain it is, and how much the base held."""

    domain: str
    calibration: ScopeCalibration
    base_chunks: int
    last_rid: int


def replace(root: Path, domain: str, model_ids: Sequence[str], stored: Sequence[StoredCalibration]) -> None:
    """Keep calibrations of a domain in place of the earlier ones under these embedders.

    Raises:
        StoreError: the database cannot be opened.
        sqlite3.Error: it cannot be written.
    """
    if not model_ids:
        return
    connection = schema.connect(root, write=True)
    try:
        with schema.transaction(connection):
            if stored:
                connection.execute(_TABLE)
            if _has_table(connection):
                gone = [(domain, model_id) for model_id in model_ids]
                connection.executemany("DELETE FROM calibrations WHERE domain = ? AND model_id = ?", gone)
            for one in stored:
                found = one.calibration
                values = (found.threshold, found.strong, found.signal, found.model_id, found.own, found.judged)
                connection.execute(
                    f"INSERT INTO calibrations(domain, {_COLUMNS}, base_chunks, last_rid)"
                    f" VALUES ({', '.join('?' * 11)})",
                    (one.domain, *values, found.outside, found.chunks, one.base_chunks, one.last_rid),
                )
    finally:
        connection.close()


def read_one(connection: sqlite3.Connection, domain: str, model_id: str) -> ScopeCalibration | None:
    """Return the calibration of a domain under an embedder ("": words alone), None where there is none of this signal.

    Args:
        connection: a reader's.
    """
    if not _has_table(connection):
        return None
    row = connection.execute(
        f"SELECT {_COLUMNS} FROM calibrations WHERE domain = ? AND model_id = ? AND signal = ?",
        (domain, model_id, SIGNAL_VERSION),
    ).fetchone()
    return None if row is None else _calibration(row)


def read_all(connection: sqlite3.Connection) -> list[StoredCalibration]:
    """Return what was calibrated, by domain and embedder; of earlier signals too."""
    if not _has_table(connection):
        return []
    rows = connection.execute(
        f"SELECT domain, base_chunks, last_rid, {_COLUMNS} FROM calibrations ORDER BY domain, model_id"
    )
    return [StoredCalibration(row[0], _calibration(row[3:]), row[1], row[2]) for row in rows]


def extent_of(connection: sqlite3.Connection, sources: Sequence[str], *, up_to: int | None = None) -> Extent:
    """Return how much the base holds, and how much of it is of some sources.

    Args:
        connection: a reader's, in a transaction.
        up_to: count only rows up to this id.
    """
    marks, limit = ", ".join("?" * len(sources)), -1 if up_to is None else up_to
    row = connection.execute(
        f"SELECT coalesce(sum(source_id IN ({marks})), 0), count(*), coalesce(max(rid), 0) {_LIVE}"
        " AND (? < 0 OR rid <= ?)",
        (*sources, limit, limit),
    ).fetchone()
    return Extent(*row)


def outdated(connection: sqlite3.Connection, stored: StoredCalibration, sources: Sequence[str]) -> bool:
    """Return whether a calibration is of another signal, or a fifth of its sources' chunks or of the base changed.

    Args:
        connection: a reader's, in a transaction.
        sources: the domain's.
    """
    if stored.calibration.signal != SIGNAL_VERSION:
        return True
    now, left = extent_of(connection, sources), extent_of(connection, sources, up_to=stored.last_rid)
    changes = (
        (stored.calibration.chunks, now.chunks, left.chunks),
        (stored.base_chunks, now.base_chunks, left.base_chunks),
    )
    return any(max(there - kept, before - kept) >= _MOST_CHANGE * before for before, there, kept in changes if there)


def _has_table(connection: sqlite3.Connection) -> bool:
    found = connection.execute("SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = 'calibrations'")
    return found.fetchone() is not None


def _calibration(row: Sequence[object]) -> ScopeCalibration:
    names = _COLUMNS.split(", ")
    return ScopeCalibration(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type]
