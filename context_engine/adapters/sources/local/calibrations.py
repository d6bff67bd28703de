"""The calibrations of a base: one row for each domain, embedder and partition, in the base's database.

Each partition is calibrated separately: writes to another partition do not affect it. Its change since is measured by
its row ids, which are never reused: higher ids were added, missing lower ids were removed; a replaced document counts
once, as the greater of the two.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.adapters.sources.local import schema
from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION, mean_calibration

_MOST_CHANGE: Final = 0.2  # share of the chunks; beyond it the threshold may no longer fit
_KEY: Final = "domain, model_id, partition_key"
_COLUMNS: Final = "threshold, strong, signal, model_id, own, judged, outside, chunks, near_miss"
_LIVE: Final = "FROM documents JOIN sources USING (source_key) WHERE removed IS NULL"
_AMONG: Final = "IN (SELECT value FROM json_each(?))"


class Extent(NamedTuple):
    """The size of a partition.

    Attributes:
        chunks: of some sources; `base_chunks` of all.
        last_rid: its highest row id; 0 if it is empty.
    """

    chunks: int
    base_chunks: int
    last_rid: int


class StoredCalibration(NamedTuple):
    """A calibration with its domain and partition, and the partition's size then."""

    domain: str
    partition: int
    calibration: ScopeCalibration
    base_chunks: int
    last_rid: int


def replace(
    root: Path, index_number: int, outdated: Collection[tuple[str, str, int]], stored: Sequence[StoredCalibration]
) -> None:
    """Replace calibrations, unless the index was rebuilt meanwhile.

    A rebuild may have moved documents out of a partition, which must then keep no trace of them.

    Args:
        index_number: of the base's state before the calibration.
        outdated: domain, embedder and partition of the calibrations to delete.

    Raises:
        StoreError: the database cannot be opened.
        sqlite3.Error: the write failed.
    """
    if not outdated:
        return
    connection = schema.connect(root, write=True)
    try:
        with schema.transaction(connection):
            if schema.state_to_write(connection, root).index_number != index_number:
                return
            connection.executemany(f"DELETE FROM calibrations WHERE ({_KEY}) = (?, ?, ?)", outdated)
            for part in stored:
                values = [getattr(part.calibration, name) for name in _COLUMNS.split(", ")]
                row = (part.domain, part.partition, *values, part.base_chunks, part.last_rid)
                connection.execute(
                    f"INSERT INTO calibrations(domain, partition_key, {_COLUMNS}, base_chunks, last_rid)"
                    f" VALUES ({', '.join('?' * len(row))})",
                    row,
                )
    finally:
        connection.close()


def in_force(
    connection: sqlite3.Connection, domain: str, model_id: str, partitions: Collection[int]
) -> ScopeCalibration | None:
    """Return the calibration of a domain under an embedder ("": text only) for a reader of some partitions.

    Returns:
        The mean over the partitions (`mean_calibration`), or None if no calibration has the current signal version.
    """
    rows = connection.execute(
        f"SELECT {_COLUMNS} FROM calibrations WHERE domain = ? AND model_id = ? AND signal = ?"
        f" AND partition_key {_AMONG} ORDER BY partition_key",
        (domain, model_id, SIGNAL_VERSION, json.dumps(list(partitions))),
    )
    return mean_calibration([_calibration(row) for row in rows])


def read_all(connection: sqlite3.Connection) -> list[StoredCalibration]:
    """Return all calibrations, by domain, embedder and partition; also those of earlier signals."""
    rows = connection.execute(
        f"SELECT domain, partition_key, base_chunks, last_rid, {_COLUMNS} FROM calibrations ORDER BY {_KEY}"
    )
    return [StoredCalibration(row[0], row[1], _calibration(row[4:]), row[2], row[3]) for row in rows]


def partitions_of(connection: sqlite3.Connection, sources: Sequence[str]) -> tuple[int, ...]:
    """Return the keys of the partitions that hold documents of some sources, ascending."""
    rows = connection.execute(
        f"SELECT DISTINCT partition_key {_LIVE} AND source_id {_AMONG} ORDER BY partition_key",
        (json.dumps(list(sources)),),
    )
    return tuple(key for (key,) in rows)


def extent_of(
    connection: sqlite3.Connection, sources: Sequence[str], partition: int, *, up_to: int | None = None
) -> Extent:
    """Return the size of a partition, in total and of some sources.

    Args:
        up_to: count only rows up to this id.
    """
    limit = -1 if up_to is None else up_to
    row = connection.execute(
        f"SELECT coalesce(sum(source_id {_AMONG}), 0), count(*), coalesce(max(rid), 0)"
        f" {_LIVE.replace('documents', 'documents JOIN chunks USING (doc_key)', 1)}"
        " AND partition_key = ? AND (? < 0 OR rid <= ?)",
        (json.dumps(list(sources)), partition, limit, limit),
    ).fetchone()
    return Extent(*row)


def outdated(connection: sqlite3.Connection, stored: StoredCalibration, sources: Sequence[str]) -> bool:
    """Return whether a calibration lacks a value or is of another signal, or a fifth of its partition or of its sources
    there changed."""
    if stored.calibration.signal != SIGNAL_VERSION or stored.calibration.near_miss is None:
        return True
    now = extent_of(connection, sources, stored.partition)
    left = extent_of(connection, sources, stored.partition, up_to=stored.last_rid)
    changes = (
        (stored.calibration.chunks, now.chunks, left.chunks),
        (stored.base_chunks, now.base_chunks, left.base_chunks),
    )
    return any(max(after - kept, before - kept) >= _MOST_CHANGE * before for before, after, kept in changes if after)


def _calibration(row: Sequence[object]) -> ScopeCalibration:
    names = _COLUMNS.split(", ")
    return ScopeCalibration(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type]
