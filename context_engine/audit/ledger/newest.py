"""The newest records that meet criteria, page by page: a late page takes no longer than the first."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Final, NamedTuple

from sqlalchemy import ColumnElement, Connection, case, func, literal, select, tuple_

from context_engine.audit.formats.tiles import TILE_WIDTH
from context_engine.audit.ledger.database import parts
from context_engine.audit.ledger.derive import FATES
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.look_up import (
    ChunkMention,
    Criteria,
    MentionCriteria,
    RecordRow,
    conditions,
    find_mentions,
    naming,
    tiles_named,
)
from context_engine.audit.ledger.schema import chunk, log, mention, record

_RECORD: Final = tuple(record.c)
_AT_ONCE: Final = 500
_TILES: Final = 64
_NAMES: Final = ("document_id", "document_version", "source_id", "chunk_id")


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedRecords:
    """Which records to list.

    Attributes:
        criteria: its limit and order are ignored.
        kinds: any of these kinds; empty: every kind.
        callers: any of these pseudonyms; None: every caller.
    """

    criteria: Criteria
    kinds: tuple[str, ...] = ()
    callers: tuple[str, ...] | None = None

    def conditions(self) -> list[ColumnElement[bool]]:
        """Return the SQL conditions."""
        wanted = conditions(self.criteria)
        if self.kinds:
            wanted.append(record.c.kind.in_(self.kinds))
        if self.callers is not None:
            wanted.append(record.c.caller.in_(self.callers))
        return wanted


def newest_rows(ledger: Ledger, wanted: WantedRecords, size: int, before: int | None = None) -> list[RecordRow]:
    """Return the newest records, newest first.

    Args:
        size: most records.
        before: the index of the last record of the page before; None: the first page.
    """
    statement = select(*_RECORD).where(*wanted.conditions()).order_by(record.c.time.desc(), record.c.idx.desc())
    with ledger.database.connect() as connection:
        if before is not None:
            time = connection.scalar(select(record.c.time).where(record.c.idx == before)) or ""
            here = tuple_(literal(time), literal(before))
            statement = statement.where(tuple_(record.c.time, record.c.idx) < here)
        return [RecordRow(*row) for row in connection.execute(statement.limit(size))]


def rows_among(ledger: Ledger, wanted: WantedRecords, size: int, indices: Iterable[int]) -> list[RecordRow]:
    """Return the first records among some indices, in the order of the log backwards.

    Args:
        size: most records.
        indices: from the largest to the smallest; no more are read than needed.
    """
    rows: list[RecordRow] = []
    source = iter(indices)
    while len(rows) < size and (batch := list(islice(source, _AT_ONCE))):
        statement = select(*_RECORD).where(record.c.idx.in_(batch), *wanted.conditions())
        with ledger.database.connect() as connection:
            rows += [RecordRow(*row) for row in connection.execute(statement.order_by(record.c.idx.desc()))]
    return rows[:size]


def matching(ledger: Ledger, wanted: WantedRecords) -> set[int]:
    """Return the indices of all records that match."""
    with ledger.database.connect() as connection:
        return set(connection.execute(select(record.c.idx).where(*wanted.conditions())).scalars())


def naming_newest_first(ledger: Ledger, chunks: MentionCriteria, before: int | None = None) -> Iterator[int]:
    """Yield the indices of the records that name such chunks, from the largest to the smallest.

    Args:
        chunks: its hash and its fates are ignored.
        before: only smaller indices.
    """
    limit = () if before is None else (mention.c.idx < before,)
    for here in _tiles_newest_first(ledger):
        statement = select(mention.c.idx).where(naming(here, *_named(chunks)), *limit).distinct()
        with ledger.database.connect() as connection:
            indices = connection.execute(statement.order_by(mention.c.idx.desc())).scalars().all()
        yield from indices


class RecordedUse(NamedTuple):
    """A version of a document in a record.

    Attributes:
        record: its index.
        version: of the document.
        fate: the most visible one: returned, merged or dropped.
    """

    record: int
    caller: str | None
    version: str | None
    fate: str


_VISIBLE: Final = ("returned", "merged", "dropped")
_PLACE: Final = case({FATES.index(fate): place for place, fate in enumerate(_VISIBLE)}, value=mention.c.fate, else_=9)


def uses_newest_first(ledger: Ledger, chunks: MentionCriteria, wanted: WantedRecords) -> Iterator[RecordedUse]:
    """Yield the versions of the chunks that records name, those of the newest records first.

    Args:
        chunks: its hash and its fates are ignored.
        wanted: conditions on the records.
    """
    columns = (mention.c.idx, record.c.caller, chunk.c.document_version)
    joined = mention.join(chunk, chunk.c.id == mention.c.chunk).join(record, record.c.idx == mention.c.idx)
    grouped = select(*columns, func.min(_PLACE)).select_from(joined).group_by(*columns)
    for here in _tiles_newest_first(ledger):
        statement = grouped.where(naming(here, *_named(chunks)), *wanted.conditions())
        with ledger.database.connect() as connection:
            rows = connection.execute(statement.order_by(mention.c.idx.desc())).all()
        yield from (RecordedUse(*row[:-1], _VISIBLE[row[-1]] if row[-1] < len(_VISIBLE) else "") for row in rows)


def mentions_in(ledger: Ledger, chunks: MentionCriteria, indices: Collection[int]) -> Iterator[ChunkMention]:
    """Yield the chunks that the records at some indices name, in log order."""
    tiles = sorted({index // TILE_WIDTH for index in indices})
    for start in range(0, len(tiles), _TILES):
        with ledger.database.connect() as connection:
            mentions = list(find_mentions(connection, chunks, tiles[start : start + _TILES]))
        yield from (each for each in mentions if each.record.index in indices)


def _tiles_newest_first(ledger: Ledger) -> Iterator[range]:
    with ledger.database.connect() as connection:
        tiles = tiles_named(connection)
    for stop in range(tiles.stop, tiles.start, -_TILES):
        yield range(max(stop - _TILES, tiles.start), stop)


def _named(chunks: MentionCriteria) -> list[ColumnElement[bool]]:
    return [chunk.c[name] == getattr(chunks, name) for name in _NAMES if getattr(chunks, name) is not None]


def entries_of(connection: Connection, indices: Collection[int]) -> dict[int, bytes]:
    """Return the stored entries at some indices, without pruned ones."""
    entries: dict[int, bytes] = {}
    for part in parts(list(indices)):
        rows = connection.execute(select(log.c.idx, log.c.entry).where(log.c.idx.in_(part)))
        entries |= {index: entry for index, entry in rows if entry is not None}
    return entries
