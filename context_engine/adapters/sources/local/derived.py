"""What is made from all rows of a partition together: its cells, its calibrations, and adapters learnt from it.

Where rows leave a partition or come into it otherwise than by an ingestion, all are forgotten, and cells are made
anew: what they say of the rows that stay was learned from others too.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from context_engine.adapters.sources.local.adapter_store import forget_learnt_from
from context_engine.adapters.sources.local.schema import model_of


def part(connection: sqlite3.Connection, least: int, partitions: Iterable[int]) -> None:
    """Part the vectors of some partitions, each of `least` rows or more, into cells, inside the caller's transaction.

    Without numpy nothing is done: who has it searches exactly then.

    Args:
        connection: a writer's.
        least: rows of a partition from which it has cells.
        partitions: the keys of those that have changed: another stays as it is searched.
    """
    if model_of(connection) is None:
        return
    try:
        from context_engine.adapters.sources.local.cells import partition
    except ImportError:
        return
    for key in partitions:
        partition(connection, key, least)


def forget_cells(connection: sqlite3.Connection, partition: int) -> None:
    """Forget centroids and cells of a partition, inside the caller's transaction; it is searched exactly from then."""
    connection.execute(
        "DELETE FROM cells WHERE rid IN"
        " (SELECT rid FROM documents JOIN chunks USING (doc_key) WHERE partition_key = ?)",
        (partition,),
    )
    connection.execute("DELETE FROM centroids WHERE partition_key = ?", (partition,))


def forget_derived(connection: sqlite3.Connection, partitions: Iterable[int]) -> None:
    """Forget all that was made from some partitions, inside the caller's transaction, once their rows have moved.

    Args:
        partitions: the keys of those that rows have left, and of those that they have come into.
    """
    left = set(partitions)
    forget_learnt_from(connection, left)
    for key in left:
        forget_cells(connection, key)
        connection.execute("DELETE FROM calibrations WHERE partition_key = ?", (key,))
