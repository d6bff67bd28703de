"""The partitions of a base: each holds the documents of one access class, and has an index of its own.

Statistics of an index count all of its documents. So documents that not the same callers may read never share one.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from typing import Final, NamedTuple

from context_engine.adapters.sources.local.adapter_store import forget_learnt_from
from context_engine.core.models import AccessClass, AccessScope, Classification

OPEN: Final = 1
"""The partition of what everybody may read; always there."""

_COLUMNS: Final = "partition_key, rules, classification, generation"


class Partition(NamedTuple):
    """A partition.

    Attributes:
        key: names it in the rows and on disk; never used again.
        holds: the access class of its documents.
        generation: of the last commit that changed one of them.
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
    """Return the partitions that a caller may read, the oldest first: never none, for one is open to all.

    Args:
        connection: a reader's, in a transaction.
        access: of the caller; None: everything.
        only: leave out all partitions but this one.
    """
    return tuple(
        one
        for one in partitions(connection)
        if (only is None or one.key == only) and (access is None or access.admits(one.holds))
    )


def partition_key(connection: sqlite3.Connection, held: AccessClass, generation: int) -> int:
    """Return the key of the partition of a class, making it in the caller's transaction.

    Args:
        connection: a writer's.
        held: the class.
        generation: of the last commit; a new partition holds all of it, nothing.
    """
    named = (held.rules, held.classification or "")
    found = connection.execute(
        "SELECT partition_key FROM partitions WHERE rules = ? AND classification = ?", named
    ).fetchone()
    if found is not None:
        return int(found[0])
    insert = "INSERT INTO partitions(rules, classification, generation) VALUES (?, ?, ?)"
    return int(connection.execute(insert, (*named, generation)).lastrowid or 0)


def touch(connection: sqlite3.Connection, generation: int, embedded: Iterable[int] = ()) -> list[int]:
    """Give every partition that a commit changes its generation, in the caller's transaction; return their keys.

    Args:
        connection: a writer's.
        generation: of the commit.
        embedded: keys of partitions of which rows were given vectors.
    """
    connection.execute(
        "UPDATE partitions SET generation = :now WHERE EXISTS (SELECT 1 FROM documents WHERE"
        " documents.partition_key = partitions.partition_key AND documents.generation = :now)"
        " OR partition_key IN (SELECT partition_key FROM documents WHERE removed = :now)",
        {"now": generation},
    )
    set_generation(connection, generation, embedded)
    return [one.key for one in partitions(connection) if one.generation == generation]


def set_generation(connection: sqlite3.Connection, generation: int, keys: Iterable[int]) -> None:
    """Give some partitions their generation: no document in one may be of a later."""
    connection.executemany(
        "UPDATE partitions SET generation = ? WHERE partition_key = ?", [(generation, key) for key in keys]
    )


def forget_empty(connection: sqlite3.Connection) -> None:
    """Forget partitions without documents and what was made from them, in the transaction of a rebuild.

    That of all is kept.
    """
    empty = connection.execute(
        "SELECT partition_key FROM partitions WHERE partition_key <> ?"
        " AND NOT EXISTS (SELECT 1 FROM documents WHERE documents.partition_key = partitions.partition_key)",
        (OPEN,),
    ).fetchall()
    connection.executemany("DELETE FROM partitions WHERE partition_key = ?", empty)
    forget_learnt_from(connection, [key for (key,) in empty])
    for table in ("centroids", "calibrations"):
        connection.execute(f"DELETE FROM {table} WHERE partition_key NOT IN (SELECT partition_key FROM partitions)")


def held_by(connection: sqlite3.Connection, partition: Partition, indexed: int) -> int | None:
    """Return up to which generation the index of a partition holds all of its changes; None: all there are.

    Args:
        connection: a reader's, in a transaction.
        partition: as it stands in that transaction.
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
