"""A sample of records, drawn by a seed: whoever has the ids and the seed draws the same, and nobody chooses them."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from sqlalchemy import Connection, select

from context_engine.audit.ledger.look_up import Criteria, RecordRow, conditions, rows_of
from context_engine.audit.ledger.rows import parts
from context_engine.audit.ledger.schema import record

_AT_ONCE: Final = 5000


class Sample(NamedTuple):
    """Records that were drawn.

    Attributes:
        rows: of the records, in the order in which they were drawn.
        population: how many records they were drawn from.
    """

    rows: list[RecordRow]
    population: int


def draw_order(seed: str, record_id: str) -> bytes:
    """Return SHA-256(seed || line feed || record id): the records for which it is smallest are drawn first.

    Args:
        seed: what the sample is drawn by.
        record_id: of a record.
    """
    return hashlib.sha256(f"{seed}\n{record_id}".encode("utf-8", "surrogatepass")).digest()


def draw(connection: Connection, criteria: Criteria, size: int, seed: str) -> Sample:
    """Draw records among those that meet all criteria.

    Args:
        connection: to the ledger's database.
        criteria: which records are drawn from; its limit and its order count for nothing.
        size: how many are drawn, if there are so many; at least 1.
        seed: what they are drawn by.
    """
    population = 0

    def ids() -> Iterator[tuple[bytes, int]]:
        nonlocal population
        statement = select(record.c.record_id, record.c.idx).where(*conditions(criteria))
        for record_id, index in connection.execute(statement, execution_options={"yield_per": _AT_ONCE}):
            population += 1
            yield draw_order(seed, record_id), index

    drawn = [index for _, index in heapq.nsmallest(size, ids())]
    found = [row for part in parts(drawn) for row in rows_of(connection, part)]
    return Sample(_in_order(found, seed), population)


def merged(samples: Iterable[Sample], size: int, seed: str) -> Sample:
    """Return the sample of several populations that have no record in common, out of the samples of each.

    Args:
        samples: each drawn by the seed, of that size.
        size: how many are drawn.
        seed: what they are drawn by.
    """
    found = list(samples)
    rows = _in_order([row for sample in found for row in sample.rows], seed)
    return Sample(rows[:size], sum(sample.population for sample in found))


def _in_order(rows: list[RecordRow], seed: str) -> list[RecordRow]:
    return sorted(rows, key=lambda row: draw_order(seed, row.record_id))
