"""The partitions of a base: each holds the documents of one access class, and has an index and calibrations of its own.

An index's statistics count all of its documents, so documents with different readers never share an index. A partition
has one calibration for each domain and embedder: writes to another partition do not affect it.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.schema import model_of
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, VectorModel
from context_engine.adapters.sources.stores.calibrating import CalibratedExtent
from context_engine.adapters.sources.stores.chunk_rows import Place, SourcePlace
from context_engine.core.models import AccessClass, AccessScope, ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION, mean_calibration

OPEN: Final = 1
"""The partition that all callers may read; it always exists."""
_KEY: Final = "domain, model_id, partition_key"
_CALIBRATION_COLUMNS: Final = "threshold, strong, signal, model_id, own, judged, outside, chunks, near_miss"
_LIVE: Final = "FROM documents JOIN sources USING (source_key) WHERE removed IS NULL"
_AMONG: Final = "IN (SELECT value FROM json_each(?))"
_COLUMNS: Final = "partition_key, rules, classification, generation"


class Partition(NamedTuple):
    """A partition.

    Attributes:
        key: identifies it in the rows and on disk; never reused.
        holds: the access class of its documents.
        generation: of the last commit that changed its documents.
    """

    key: int
    holds: AccessClass
    generation: int


def partitions(connection: sqlite3.Connection) -> list[Partition]:
    """Return all partitions of a base, the oldest first."""
    rows = connection.execute(f"SELECT {_COLUMNS} FROM partitions ORDER BY partition_key")
    return [Partition(key, AccessClass.of(rules, name), generation) for key, rules, name, generation in rows]


def readable(
    connection: sqlite3.Connection, access: AccessScope | None, only: int | None = None
) -> tuple[Partition, ...]:
    """Return the partitions that a caller may read, oldest first; at least the one open to all.

    Args:
        access: of the caller; None admits everything.
    """
    return tuple(
        partition
        for partition in partitions(connection)
        if (only is None or partition.key == only) and (access is None or access.admits(partition.holds))
    )


def partition_key(connection: sqlite3.Connection, access: AccessClass, generation: int) -> int:
    """Return the key of the partition of a class, creating it in the caller's transaction if needed.

    Args:
        generation: of the last commit; a new partition starts up to date with it.
    """
    named = (access.rules, access.classification or "")
    row = connection.execute(
        "SELECT partition_key FROM partitions WHERE rules = ? AND classification = ?", named
    ).fetchone()
    if row is not None:
        return int(row[0])
    insert = "INSERT INTO partitions(rules, classification, generation) VALUES (?, ?, ?)"
    return int(connection.execute(insert, (*named, generation)).lastrowid or 0)


def touch(connection: sqlite3.Connection, generation: int, embedded: Iterable[int] = ()) -> list[int]:
    """Set the generation of every partition that a commit changes, in the caller's transaction; return their keys."""
    connection.execute(
        "UPDATE partitions SET generation = :now WHERE EXISTS (SELECT 1 FROM documents WHERE"
        " documents.partition_key = partitions.partition_key AND documents.generation = :now)"
        " OR partition_key IN (SELECT partition_key FROM documents WHERE removed = :now)",
        {"now": generation},
    )
    set_generation(connection, generation, embedded)
    return [partition.key for partition in partitions(connection) if partition.generation == generation]


def set_generation(connection: sqlite3.Connection, generation: int, keys: Iterable[int]) -> None:
    """Set the generation of some partitions; none of their documents may have a later one."""
    connection.executemany(
        "UPDATE partitions SET generation = ? WHERE partition_key = ?", [(generation, key) for key in keys]
    )


def forget_empty(connection: sqlite3.Connection) -> None:
    """Delete partitions without documents and their derived data, in the transaction of a rebuild.

    The partition open to all is kept.
    """
    empty = connection.execute(
        "SELECT partition_key FROM partitions WHERE partition_key <> ?"
        " AND NOT EXISTS (SELECT 1 FROM documents WHERE documents.partition_key = partitions.partition_key)",
        (OPEN,),
    ).fetchall()
    connection.executemany("DELETE FROM partitions WHERE partition_key = ?", empty)
    _forget_adapters(connection, {key for (key,) in empty})
    for table in ("centroids", "calibrations"):
        connection.execute(f"DELETE FROM {table} WHERE partition_key NOT IN (SELECT partition_key FROM partitions)")


def held_by(connection: sqlite3.Connection, partition: Partition, indexed: int) -> int | None:
    """Return the generation up to which a partition's index is complete; None if it is up to date.

    Args:
        indexed: the generation that its index was brought up to.
    """
    if indexed >= partition.generation:
        return None
    (first,) = connection.execute(
        "SELECT min(changed) FROM (SELECT min(generation) AS changed FROM documents"
        " WHERE partition_key = :key AND generation > :indexed"
        " UNION ALL SELECT min(removed) FROM documents WHERE partition_key = :key AND removed > :indexed)",
        {"key": partition.key, "indexed": indexed},
    ).fetchone()
    return partition.generation - 1 if first is None else int(first) - 1


class Move(NamedTuple):
    """Documents in the wrong partition: those of one source with one claim.

    Attributes:
        claimed: as stored in the rows.
        holds: the class of the documents.
    """

    source_key: int
    partition_key: int
    claimed: str
    holds: AccessClass


def moves(connection: sqlite3.Connection, place: Place, *, source_id: str | None = None) -> Iterator[Move]:
    """Yield the documents in the wrong partition; sources without known rules have none.

    Args:
        connection: in a transaction, or a writer's.
        place: returns the current place of each source.
    """
    holds = {partition.key: partition.holds for partition in partitions(connection)}
    rows = connection.execute(
        "SELECT DISTINCT source_id, source_key, partition_key, claimed FROM sources JOIN documents USING (source_key)"
        f" WHERE removed IS NULL{'' if source_id is None else ' AND source_id = ?'}"
        " ORDER BY source_key, partition_key, claimed",
        () if source_id is None else (source_id,),
    )
    for name, source_key, partition_key, claimed in rows.fetchall():
        claim_of_name = place(name)
        if claim_of_name is not None:
            wanted = claim_of_name.holds(claimed)
            if wanted != holds.get(partition_key):
                yield Move(source_key, partition_key, claimed, wanted)


def is_placed(connection: sqlite3.Connection, source_id: str, place: SourcePlace) -> bool:
    """Return whether every document of a source is in the partition of its place."""
    return next(moves(connection, lambda _: place, source_id=source_id), None) is None


def forget_cells(connection: sqlite3.Connection, partition: int) -> None:
    """Delete a partition's centroids and cells, inside the caller's transaction; it is then searched exactly."""
    connection.execute(
        "DELETE FROM cells WHERE rid IN"
        " (SELECT rid FROM documents JOIN chunks USING (doc_key) WHERE partition_key = ?)",
        (partition,),
    )
    connection.execute("DELETE FROM centroids WHERE partition_key = ?", (partition,))


def forget_derived(connection: sqlite3.Connection, partitions: Iterable[int]) -> None:
    """Delete data derived from the partitions that moved rows have left and entered, in the caller's transaction."""
    keys = set(partitions)
    _forget_adapters(connection, keys)
    for key in keys:
        forget_cells(connection, key)
        connection.execute("DELETE FROM calibrations WHERE partition_key = ?", (key,))


def adapter_rows(connection: sqlite3.Connection, root: Path | str = "") -> AdapterRows:
    """Return the adapters of a base in a transaction.

    Args:
        root: folder of the base, for errors.
    """
    model = model_of(connection)
    vectors = None if model is None else VectorModel(model.model_id, model.dimension)
    return AdapterRows(lambda query, values: connection.execute(query, values).fetchall(), vectors, str(root))


def _forget_adapters(connection: sqlite3.Connection, keys: set[int]) -> None:
    """Delete the adapters that were learnt from any of some partitions, and the calibrations under them."""
    gone = adapter_rows(connection).forget_learnt_from(keys)
    connection.executemany("DELETE FROM calibrations WHERE domain = ? AND model_id = ?", gone)


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
                values = [getattr(part.calibration, name) for name in _CALIBRATION_COLUMNS.split(", ")]
                row = (part.domain, part.partition, *values, part.base_chunks, part.last_rid)
                connection.execute(
                    f"INSERT INTO calibrations(domain, partition_key, {_CALIBRATION_COLUMNS}, base_chunks, last_rid)"
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
        f"SELECT {_CALIBRATION_COLUMNS} FROM calibrations WHERE domain = ? AND model_id = ? AND signal = ?"
        f" AND partition_key {_AMONG} ORDER BY partition_key",
        (domain, model_id, SIGNAL_VERSION, json.dumps(list(partitions))),
    )
    return mean_calibration([_calibration(row) for row in rows])


def read_all(connection: sqlite3.Connection) -> list[StoredCalibration]:
    """Return all calibrations, by domain, embedder and partition; also those of earlier signals."""
    rows = connection.execute(
        f"SELECT domain, partition_key, base_chunks, last_rid, {_CALIBRATION_COLUMNS} FROM calibrations ORDER BY {_KEY}"
    )
    return [StoredCalibration(row[0], row[1], _calibration(row[4:]), row[2], row[3]) for row in rows]


def holding(connection: sqlite3.Connection, sources: Sequence[str]) -> list[tuple[str, int]]:
    """Return (source, key of a partition) for each partition that holds documents of some sources."""
    return connection.execute(
        f"SELECT DISTINCT source_id, partition_key {_LIVE} AND source_id {_AMONG}", (json.dumps(list(sources)),)
    ).fetchall()


def extent_of(
    connection: sqlite3.Connection, sources: Sequence[str], partition: int, *, up_to: int | None = None
) -> CalibratedExtent:
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
    return CalibratedExtent(*row)


def _calibration(row: Sequence[object]) -> ScopeCalibration:
    names = _CALIBRATION_COLUMNS.split(", ")
    return ScopeCalibration(**dict(zip(names, row, strict=True)))  # type: ignore[arg-type]
