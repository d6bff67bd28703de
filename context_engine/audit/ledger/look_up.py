"""Look up records and the chunks they name, draw reproducible random samples, and count what a ledger holds."""

from __future__ import annotations

import hashlib
import heapq
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, NamedTuple

from sqlalchemy import Column, ColumnElement, Connection, and_, distinct, func, select

from context_engine.audit.ledger.database import Database, parts
from context_engine.audit.ledger.derive import FATES, moment_text, sha256_bytes
from context_engine.audit.ledger.schema import addendum, chunk, erasure, log, mention, record

_RECORD: Final = tuple(record.c)

_CHUNK: Final = tuple(chunk.c)[2:]  # without number and identity

_FIRST: Final = select(func.min(mention.c.tile))

_LAST: Final = select(func.max(mention.c.tile))

_TEXTS: Final = ("document_id", "document_version", "source_id", "chunk_id")


@dataclass(frozen=True, slots=True)
class RecordRow:
    """The look-up row of a record.

    Attributes:
        index: its index in the log.
        kind: search, rank, refusal, context, fetch, erasure, key, loss or pruning.
        time: UTC to the microsecond, ending in Z; "" if the entry has none.
        domain, status, decision: of the search.
        caller: keyed pseudonym.
        search_id: of a context or an answer, its search.
    """

    index: int
    record_id: str
    kind: str
    time: str
    domain: str | None
    status: str | None
    decision: str | None
    caller: str | None
    search_id: str | None


class ChunkMention(NamedTuple):
    """A chunk that a record names.

    Attributes:
        content_sha256: hex SHA-256 of its text.
        fate: returned, merged or dropped.
    """

    record: RecordRow
    source_id: str
    chunk_id: str
    document_id: str | None
    document_version: str | None
    content_sha256: str | None
    fate: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Criteria:
    """Which records to look up; None accepts any.

    Attributes:
        since, until: since <= time < until; aware.
        domain, caller, kind, decision, status, search_id: as in `RecordRow`.
        newest_first: of equal times the higher index counts as newer.
        log_order: by index and not by time, which goes back where a clock was set back; oldest first.
    """

    since: datetime | None = None
    until: datetime | None = None
    domain: str | None = None
    caller: str | None = None
    kind: str | None = None
    decision: str | None = None
    status: str | None = None
    search_id: str | None = None
    limit: int | None = None
    newest_first: bool = True
    log_order: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class MentionCriteria:
    """Which chunks of records to look up; None, and empty fates, accept any.

    Attributes:
        content_sha256: hex SHA-256 of the text.
        fates: any of returned, merged, dropped.
    """

    document_id: str | None = None
    document_version: str | None = None
    content_sha256: str | None = None
    source_id: str | None = None
    chunk_id: str | None = None
    fates: tuple[str, ...] = ()


def find_rows(connection: Connection, criteria: Criteria) -> list[RecordRow]:
    """Return the records that meet all criteria, in order of time."""
    by_time = (record.c.time.desc(), record.c.idx.desc()) if criteria.newest_first else (record.c.time, record.c.idx)
    order = (record.c.idx,) if criteria.log_order else by_time
    rows = connection.execute(select(*_RECORD).where(*conditions(criteria)).order_by(*order).limit(criteria.limit))
    return [RecordRow(*row) for row in rows]


def conditions(criteria: Criteria) -> list[ColumnElement[bool]]:
    """Return the SQL conditions of criteria, without limit and order."""
    names = ("domain", "caller", "kind", "decision", "status", "search_id")
    wanted: list[ColumnElement[bool]] = [
        record.c[name] == getattr(criteria, name) for name in names if getattr(criteria, name) is not None
    ]
    if criteria.since is not None:
        wanted.append(record.c.time >= moment_text(criteria.since))
    if criteria.until is not None:
        wanted.append(record.c.time < moment_text(criteria.until))
    return wanted


def rows_of(connection: Connection, indices: Collection[int]) -> list[RecordRow]:
    """Return the records at some indices, in any order; at most as many indices as one list of `parts`."""
    return [RecordRow(*row) for row in connection.execute(select(*_RECORD).where(record.c.idx.in_(indices)))]


def find_mentions(connection: Connection, criteria: MentionCriteria, tiles: Sequence[int]) -> Iterator[ChunkMention]:
    """Yield the chunks of records in these tiles that meet all criteria, in log order."""
    wanted = [chunk.c[name] == getattr(criteria, name) for name in _TEXTS if getattr(criteria, name) is not None]
    if criteria.content_sha256 is not None:
        wanted.append(chunk.c.content_sha256 == sha256_bytes(criteria.content_sha256))
    numbers = [number for number, fate in enumerate(FATES) if fate in criteria.fates]
    fates = (mention.c.fate.in_(numbers),) if criteria.fates else ()
    named = mention.join(chunk, chunk.c.id == mention.c.chunk).join(record, record.c.idx == mention.c.idx)
    statement = select(*_RECORD, *_CHUNK, mention.c.fate).select_from(named).where(naming(tiles, *wanted), *fates)
    for row in connection.execute(statement.order_by(mention.c.idx, mention.c.chunk)):
        texts, sha256, fate = row[len(_RECORD) : -2], row[-2], row[-1]
        tail = (None if sha256 is None else sha256.hex(), FATES[fate] if fate < len(FATES) else "")
        yield ChunkMention._make((RecordRow(*row[: len(_RECORD)]), *texts, *tail))


def naming(tiles: Sequence[int], *wanted: ColumnElement[bool]) -> ColumnElement[bool]:
    """Return the SQL condition for mentions of chunks in these tiles; both databases answer it from an index.

    Args:
        tiles: the tiles of the records; not many.
        wanted: conditions on the chunks; none: any chunk.
    """
    here = mention.c.tile.in_(tiles)  # listed singly: for a range PostgreSQL would scan the whole table
    return and_(here, mention.c.chunk.in_(select(chunk.c.id).where(*wanted))) if wanted else here


def tiles_named(connection: Connection) -> range:
    """Return the range of tiles whose records name chunks."""
    first, last = connection.scalar(_FIRST), connection.scalar(_LAST)
    return range(0) if first is None or last is None else range(first, last + 1)


_AT_ONCE: Final = 5000  # rows fetched from the cursor at once


class Sample(NamedTuple):
    """Records drawn at random.

    Attributes:
        rows: the records, in the order drawn.
        population: number of records that they were drawn from.
    """

    rows: list[RecordRow]
    population: int


def draw_order(seed: str, record_id: str) -> bytes:
    """Return SHA-256(seed || line feed || record id); the records with the smallest values are drawn first."""
    return hashlib.sha256(f"{seed}\n{record_id}".encode("utf-8", "surrogatepass")).digest()


def draw(connection: Connection, criteria: Criteria, size: int, seed: str) -> Sample:
    """Draw records among those that meet all criteria.

    Args:
        criteria: its limit and order are ignored.
        size: number of records to draw, at least 1.
        seed: determines the sample.
    """
    population = 0

    def ids() -> Iterator[tuple[bytes, int]]:
        nonlocal population
        statement = select(record.c.record_id, record.c.idx).where(*conditions(criteria))
        for record_id, index in connection.execute(statement, execution_options={"yield_per": _AT_ONCE}):
            population += 1
            yield draw_order(seed, record_id), index

    drawn = [index for _, index in heapq.nsmallest(size, ids())]
    rows = [row for part in parts(drawn) for row in rows_of(connection, part)]
    return Sample(_in_order(rows, seed), population)


def merged(samples: Iterable[Sample], size: int, seed: str) -> Sample:
    """Return the sample of several disjoint populations, given the sample of each, drawn by the same seed and size."""
    every = list(samples)
    rows = _in_order([row for sample in every for row in sample.rows], seed)
    return Sample(rows[:size], sum(sample.population for sample in every))


def _in_order(rows: list[RecordRow], seed: str) -> list[RecordRow]:
    return sorted(rows, key=lambda row: draw_order(seed, row.record_id))


_NONE: Final = ""


@dataclass(frozen=True, slots=True)
class Stored:
    """Number of addenda of one kind, and the size of their data in bytes."""

    count: int
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerStatistics:
    """Counts of a ledger's records; "" stands for a missing value.

    Attributes:
        records: in the time span.
        first, last: times of the oldest and newest of them, UTC; None if there is none.
        callers: number of different pseudonyms.
        kinds, domains, decisions, statuses, days: number of records by value; days as 2026-03-02.
        entries: bytes of all entries of the log that were not pruned.
        stored: addenda by kind.
        erased: number of erased addenda.
    """

    records: int
    first: str | None
    last: str | None
    callers: int
    kinds: Mapping[str, int]
    domains: Mapping[str, int]
    decisions: Mapping[str, int]
    statuses: Mapping[str, int]
    days: Mapping[str, int]
    entries: int
    stored: Mapping[str, Stored]
    erased: int


def ledger_statistics(
    database: Database, *, since: datetime | None = None, until: datetime | None = None
) -> LedgerStatistics:
    """Return the statistics of the records with since <= time < until; entries, addenda and erasures of all time.

    Raises:
        AuditError: the ledger cannot be read.
    """
    wanted: list[ColumnElement[bool]] = []
    if since is not None:
        wanted.append(record.c.time >= moment_text(since))
    if until is not None:
        wanted.append(record.c.time < moment_text(until))
    with database.connect(patient=True) as connection:
        totals = connection.execute(
            select(
                func.count(), func.min(record.c.time), func.max(record.c.time), func.count(distinct(record.c.caller))
            ).where(*wanted)
        ).one()
        size = func.coalesce(func.sum(func.length(addendum.c.data)), 0)
        stored = connection.execute(select(addendum.c.kind, func.count(), size).group_by(addendum.c.kind))
        return LedgerStatistics(
            records=totals[0],
            first=totals[1] or None,
            last=totals[2] or None,
            callers=totals[3],
            kinds=_counted(connection, record.c.kind, wanted),
            domains=_counted(connection, record.c.domain, wanted),
            decisions=_counted(connection, record.c.decision, wanted),
            statuses=_counted(connection, record.c.status, wanted),
            days=_counted(connection, func.substr(record.c.time, 1, 10), wanted),
            stored={kind: Stored(count, int(length)) for kind, count, length in sorted(map(tuple, stored))},
            entries=int(connection.scalar(select(func.coalesce(func.sum(func.length(log.c.entry)), 0))) or 0),
            erased=int(connection.scalar(select(func.count()).select_from(erasure)) or 0),
        )


def _counted(
    connection: Connection, column: Column[str] | ColumnElement[str], wanted: list[ColumnElement[bool]]
) -> dict[str, int]:
    rows = connection.execute(select(column, func.count()).where(*wanted).group_by(column))
    return dict(sorted((value or _NONE, count) for value, count in rows))
