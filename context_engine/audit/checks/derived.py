"""Derive the look-up rows of records and chunks again and compare them with the stored ones."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy import Connection

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.formats.tiles import TILE_WIDTH
from context_engine.audit.ledger.database import parts
from context_engine.audit.ledger.derive import (
    ChunkIdentity,
    RecordColumns,
    derive_mentions,
    derive_record,
    read_identities,
)
from context_engine.audit.ledger.schema import record

_RECORD: Final = ", ".join(column.name for column in record.columns)
_NO_RECORD: Final = "the look-up row belongs to no record"


class ReadEntry(NamedTuple):
    """An entry that matches its leaf hash, parsed; `fields` is {} if it is no JSON object."""

    idx: int
    fields: dict[str, Any]

    @property
    def record_id(self) -> str | None:
        """The record id inside the entry."""
        record_id = self.fields.get("id")
        return record_id if isinstance(record_id, str) else None


def compare_records(
    connection: Connection, start: int, end: int, entries: Sequence[ReadEntry], known: frozenset[int]
) -> Iterator[Finding]:
    """Yield the rows of `record` in [start, end) that differ from their entries.

    Args:
        known: indices of entries with a finding already; they are not compared.
    """
    # Integers are formatted into the SQL because the two drivers use different parameter styles.
    rows = connection.exec_driver_sql(f"SELECT {_RECORD} FROM record WHERE idx >= {start:d} AND idx < {end:d}")
    stored = {row[0]: tuple(row) for row in rows}
    for entry in entries:
        row = stored.pop(entry.idx, None)
        expected = derive_record(entry.idx, entry.record_id or "", entry.fields)
        if row is not None and row == expected:
            continue
        place = Place("record", entry.idx, name=entry.record_id)
        if row is None:
            yield Finding("record_row", place, "the record has no look-up row: no query finds it")
        else:
            names = [name for name, old, new in zip(RecordColumns._fields, row, expected, strict=True) if old != new]
            yield Finding("record_row", place, f"the look-up row differs from the record in {' and '.join(names)}")
    for index, row in stored.items():
        if index not in known:
            yield Finding("record_row", Place("record", int(index), name=str(row[1])), _NO_RECORD)


def surplus_rows(connection: Connection, size: int) -> Iterator[Finding]:
    """Yield the rows of `record` that lie outside the log, and the record ids that occur twice."""
    for (index,) in connection.exec_driver_sql(f"SELECT idx FROM record WHERE NOT (idx >= 0 AND idx < {size:d})"):
        yield Finding("record_row", Place("record", index if isinstance(index, int) else None), _NO_RECORD)
    twice = connection.exec_driver_sql(
        "SELECT record_id || '', max(idx) FROM record GROUP BY record_id || '' HAVING count(*) > 1"
    )
    for name, index in twice:
        yield Finding("duplicate_record", Place("record", index, name=str(name)), "several records have this id")


_MOST_NAMED: Final = 5  # chunks named in one message
_MOST_CHARACTERS: Final = 200  # of a name in a message
_Fates = dict[Any, Any]  # {chunk number: fate} of a record's rows; in SQLite either may have any type


@dataclass(slots=True)
class NamedChunks:
    """The chunks that records name.

    Attributes:
        numbers: {number of a chunk that rows name: index of the first record that does}.
        wanting: identities that records name and no row does.
    """

    numbers: dict[int, int] = field(default_factory=dict)
    wanting: set[ChunkIdentity] = field(default_factory=set)

    def join(self, other: NamedChunks) -> None:
        """Add the chunks that later records name."""
        self.numbers = {**other.numbers, **self.numbers}
        self.wanting |= other.wanting


class Identities:
    """The identities of chunks by number, each read once."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[int, ChunkIdentity | None] = {}

    def read(self, numbers: Collection[int]) -> None:
        """Read the identities of further chunks."""
        for part in parts(sorted(numbers)):
            self._known.update(read_identities(self._connection, f"WHERE id IN ({', '.join(map(str, part))})"))

    def resolved(self, fates: _Fates) -> dict[ChunkIdentity, Any]:
        """Return the fates by identity; missing and changed chunks are left out."""
        known = self._known
        return {identity: fate for number, fate in fates.items() if (identity := known.get(number)) is not None}


def compare_mentions(
    connection: Connection,
    tile: int,
    entries: Sequence[ReadEntry],
    candidates: Mapping[int, bytes | None],
    known: frozenset[int],
    identities: Identities,
    named: NamedChunks,
) -> Iterator[Finding]:
    """Yield the records of a tile whose rows of `mention` differ from their candidates.

    Args:
        candidates: the addendum by record; None if missing or damaged, then the record is not compared.
    """
    stored, fresh = _stored(connection, tile), list[int]()
    for index, fates in stored.items():
        for number in fates:
            if number not in named.numbers and isinstance(number, int) and isinstance(index, int):
                named.numbers[number] = index
                fresh.append(number)
    identities.read(fresh)
    for entry in entries:
        fates = stored.pop(entry.idx, {})
        addendum = candidates.get(entry.idx)
        if entry.idx in candidates and addendum is None:
            continue
        expected, stored_fates = derive_mentions(entry.fields, addendum), identities.resolved(fates)
        if stored_fates == expected and len(stored_fates) == len(fates):
            continue
        named.wanting |= expected.keys() - stored_fates.keys()
        # Otherwise only the row of a chunk is missing or changed, which check_identities reports once.
        are_numbers = all(isinstance(number, int) for number in fates)
        if len(fates) != len(expected) or not stored_fates.items() <= expected.items() or not are_numbers:
            yield _differing_mentions(entry, stored_fates, expected, len(fates))
    for index in stored.keys() - known:
        yield Finding("mention_row", Place("mention", index if isinstance(index, int) else None), _NO_RECORD)


def newest_number(connection: Connection) -> int:
    """Return the highest chunk number."""
    number = connection.exec_driver_sql("SELECT max(id) FROM chunk").scalar()
    return number if isinstance(number, int) else 0


def check_identities(connection: Connection, named: NamedChunks, newest: int) -> Iterator[Finding]:
    """Yield the rows of `chunk` that were changed or are named by no record, and look-up rows without a chunk.

    Args:
        newest: highest chunk number when the check began; later ones may belong to records not yet read.
    """
    gone = dict(named.numbers)
    for number, identity in read_identities(connection):
        place = Place("chunk", number)
        gone.pop(number, None)
        if identity is None:
            yield Finding("chunk_row", place, "the row of the chunk does not match its hash")
        elif number <= newest and number not in named.numbers and identity not in named.wanting:
            yield Finding("chunk_row", place, "no record names the chunk")
    for number, index in gone.items():
        yield Finding("mention_row", Place("mention", index), f"the look-up rows name chunk {number}, which is missing")


def surplus_mentions(connection: Connection, size: int) -> Iterator[Finding]:
    """Yield the rows of `mention` outside the tiles of the log."""
    tiles = -(-size // TILE_WIDTH)
    for condition in ("tile < 0", f"tile >= {tiles:d}"):
        for (index,) in connection.exec_driver_sql(f"SELECT DISTINCT idx FROM mention WHERE {condition}"):
            yield Finding("mention_row", Place("mention", index if isinstance(index, int) else None), _NO_RECORD)


def _stored(connection: Connection, tile: int) -> dict[Any, _Fates]:
    stored: dict[Any, _Fates] = defaultdict(dict)
    for number, index, fate in connection.exec_driver_sql(
        f"SELECT chunk, idx, fate FROM mention WHERE tile = {tile:d}"
    ):
        stored[index][number] = fate
    return stored


def _differing_mentions(
    entry: ReadEntry, stored: Mapping[ChunkIdentity, Any], expected: Mapping[ChunkIdentity, int], count: int
) -> Finding:
    wrong = [identity for identity in {**expected, **stored} if stored.get(identity) != expected.get(identity)]
    named = ", ".join(
        f"{identity.source_id}/{identity.chunk_id}"[:_MOST_CHARACTERS] for identity in wrong[:_MOST_NAMED]
    )
    more = max(len(wrong), count - len(stored)) - _MOST_NAMED
    problem = f"the look-up rows of the chunks differ from the record, at {named}" + (" ..." if more > 0 else "")
    return Finding("mention_row", Place("mention", entry.idx, name=entry.record_id), problem)
