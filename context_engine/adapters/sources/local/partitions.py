"""The partitions of a base: each holds the documents of one access class, and has a separate index.

An index's statistics count all of its documents, so documents with different readers never share an index.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

from context_engine.adapters.sources.local.schema import BaseState, model_of
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, VectorModel
from context_engine.adapters.sources.stores.chunk_rows import Place, SourcePlace
from context_engine.core.models import AccessClass, AccessScope, Classification
from context_engine.errors import RepartitionRequired

OPEN: Final = 1
"""The partition that all callers may read; it always exists."""
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
    return [
        Partition(key, AccessClass(rules, Classification(name) if name else None), generation)
        for key, rules, name, generation in rows
    ]


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


_MOST_REMEMBERED: Final = 1024


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
            wanted = claim_of_name.holds(Classification(claimed) if claimed else None)
            if wanted != holds.get(partition_key):
                yield Move(source_key, partition_key, claimed, wanted)


class PlacementCheck:
    """Checks, once per commit, that a source's documents are in the partition its access rules require.

    Safe for several threads.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, SourcePlace], tuple[BaseState, bool]] = {}

    def require(self, connection: sqlite3.Connection, state: BaseState, source_id: str, place: SourcePlace) -> None:
        """Refuse a source with documents in the wrong partition.

        Raises:
            RepartitionRequired: documents are where former rules put them.
        """
        if not self._is_placed(connection, state, source_id, place):
            raise RepartitionRequired(
                "the access rules or the classification have changed: run 'context-engine kb repartition' to move the "
                "documents",
                source_id=source_id,
            )

    def _is_placed(self, connection: sqlite3.Connection, state: BaseState, source_id: str, place: SourcePlace) -> bool:
        key = (source_id, place)
        known = self._known.get(key)
        if known is None or known[0] != state:
            right = next(moves(connection, lambda _: place, source_id=source_id), None) is None
            if len(self._known) >= _MOST_REMEMBERED:
                self._known = {}
            known = self._known[key] = (state, right)
        return known[1]


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
