"""The look-up rows of records and chunks, derived again and compared with the stored ones."""

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

_RECORD: str = ", ".join(column.name for column in record.columns)


class ReadEntry(NamedTuple):
    """An entry whose bytes are those that its leaf hash was made of.

    Attributes:
        idx: index in the log.
        fields: its JSON object; {} if it is none.
    """

    idx: int
    fields: dict[str, Any]

    @property
    def record_id(self) -> str | None:
        """The id that the entry itself says."""
        record_id = self.fields.get("id")
        return record_id if isinstance(record_id, str) else None


def compare_records(
    connection: Connection, start: int, end: int, entries: Sequence[ReadEntry], known: frozenset[int]
) -> Iterator[Finding]:
    """Yield the rows of `record` in [start, end) that are not what their entries say.

    Args:
        entries: of this stretch that can be read.
        known: indices of entries that are named by a finding already: nothing is compared with them.
    """
    # Whole numbers stand in the statement itself: the two databases write parameters differently.
    rows = connection.exec_driver_sql(f"SELECT {_RECORD} FROM record WHERE idx >= {start:d} AND idx < {end:d}")
    stored = {row[0]: tuple(row) for row in rows}
    for entry in entries:
        row = stored.pop(entry.idx, None)
        expected = derive_record(entry.idx, entry.record_id or "", entry.fields)
        if row is not None and row == expected:
            continue
        place = Place("record", entry.idx, name=entry.record_id)
        if row is None:
            yield Finding("record_row", place, "the record has no look-up row: it is found by no search")
        else:
            yield Finding("record_row", place, f"the look-up row says another {_differing(row, expected)}")
    for index, row in stored.items():
        if index not in known:
            place = Place("record", int(index), name=str(row[1]))
            yield Finding("record_row", place, "there is a look-up row for a record that is not there")


def surplus_rows(connection: Connection, size: int) -> Iterator[Finding]:
    """Yield the rows of `record` that stand beside the log, and record ids that stand in it twice."""
    for (index,) in connection.exec_driver_sql(f"SELECT idx FROM record WHERE NOT (idx >= 0 AND idx < {size:d})"):
        place = Place("record", index if isinstance(index, int) else None)
        yield Finding("record_row", place, "there is a look-up row for a record that is not there")
    twice = connection.exec_driver_sql(
        "SELECT record_id || '', max(idx) FROM record GROUP BY record_id || '' HAVING count(*) > 1"
    )
    for name, index in twice:
        yield Finding("duplicate_record", Place("record", index, name=str(name)), "several records have this id")


def _differing(row: Sequence[object], expected: RecordColumns) -> str:
    names = [name for name, *both in zip(RecordColumns._fields, row, expected, strict=True) if both[0] != both[1]]
    return " and ".join(names)


_MOST_NAMED: Final = 5

_MOST_CHARACTERS: Final = 200

_NOT_THERE: Final = "there are look-up rows for a record that is not there"

_Fates = dict[Any, Any]
"""What rows say: {number of a chunk: what became of it}. In SQLite either may be anything."""


@dataclass(slots=True)
class Named:
    """What records name.

    Attributes:
        numbers: {number of a chunk that rows name: index of the first record that does}.
        wanting: what records name, and no row says so.
    """

    numbers: dict[int, int] = field(default_factory=dict)
    wanting: set[ChunkIdentity] = field(default_factory=set)

    def join(self, other: Named) -> None:
        """Note what later records name."""
        self.numbers = {**other.numbers, **self.numbers}
        self.wanting |= other.wanting


class Identities:
    """The identities of chunks by number, each read once.

    Args:
        connection: to the ledger's database.
    """

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[int, ChunkIdentity | None] = {}

    def read(self, numbers: Collection[int]) -> None:
        """Read some that are not known yet."""
        for part in parts(sorted(numbers)):
            self._known.update(read_identities(self._connection, f"WHERE id IN ({', '.join(map(str, part))})"))

    def told(self, fates: _Fates) -> dict[ChunkIdentity, Any]:
        """Return what rows say of identities, without those that are gone or were changed."""
        known = self._known
        return {identity: fate for number, fate in fates.items() if (identity := known.get(number)) is not None}


def compare_mentions(
    connection: Connection,
    tile: int,
    entries: Sequence[ReadEntry],
    candidates: Mapping[int, bytes | None],
    known: frozenset[int],
    identities: Identities,
    named: Named,
) -> Iterator[Finding]:
    """Yield the records of a tile whose rows of `mention` are not what they say of their candidates.

    Args:
        entries: of the tile that can be read.
        candidates: of each record that names some: the addendum, None where it is gone or damaged: nothing is compared.
        known: indices of entries that are named by a finding already.
        identities: keeps what was read.
        named: takes what the records name.
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
        expected, told = derive_mentions(entry.fields, addendum), identities.told(fates)
        if told == expected and len(told) == len(fates):
            continue
        named.wanting |= expected.keys() - told.keys()
        # What is left is that a chunk has no row, or a changed one: the check of those says so, once.
        are_numbers = all(isinstance(number, int) for number in fates)
        if len(fates) != len(expected) or not told.items() <= expected.items() or not are_numbers:
            yield from _differing_mentions(entry, told, expected, len(fates))
    for index in stored.keys() - known:
        yield Finding("mention_row", Place("mention", index if isinstance(index, int) else None), _NOT_THERE)


def newest_number(connection: Connection) -> int:
    """Return the number of the chunk that was kept last."""
    number = connection.exec_driver_sql("SELECT max(id) FROM chunk").scalar()
    return number if isinstance(number, int) else 0


def check_identities(connection: Connection, named: Named, newest: int) -> Iterator[Finding]:
    """Yield the rows of `chunk` that were changed, or that no record names, and records that name one without a row.

    Args:
        named: what all records name.
        newest: later numbers were given since.
    """
    gone = dict(named.numbers)
    for number, identity in read_identities(connection):
        place = Place("chunk", number)
        gone.pop(number, None)
        if identity is None:
            yield Finding("chunk_row", place, "the row of a chunk is not what its hash was made of")
        elif number <= newest and number not in named.numbers and identity not in named.wanting:
            yield Finding("chunk_row", place, "no record names the chunk")
    for number, index in gone.items():
        yield Finding("mention_row", Place("mention", index), f"the look-up rows name chunk {number}, which has no row")


def surplus_mentions(connection: Connection, size: int) -> Iterator[Finding]:
    """Yield the rows of `mention` that stand beside the tiles of the log."""
    tiles = -(-size // TILE_WIDTH)
    for condition in ("tile < 0", f"tile >= {tiles:d}"):
        for (index,) in connection.exec_driver_sql(f"SELECT DISTINCT idx FROM mention WHERE {condition}"):
            yield Finding("mention_row", Place("mention", index if isinstance(index, int) else None), _NOT_THERE)


def _stored(connection: Connection, tile: int) -> dict[Any, _Fates]:
    stored: dict[Any, _Fates] = defaultdict(dict)
    for number, index, fate in connection.exec_driver_sql(
        f"SELECT chunk, idx, fate FROM mention WHERE tile = {tile:d}"
    ):
        stored[index][number] = fate
    return stored


def _differing_mentions(
    entry: ReadEntry, told: Mapping[ChunkIdentity, Any], expected: Mapping[ChunkIdentity, int], count: int
) -> Iterator[Finding]:
    wrong = [identity for identity in {**expected, **told} if told.get(identity) != expected.get(identity)]
    named = ", ".join(
        f"{identity.source_id}/{identity.chunk_id}"[:_MOST_CHARACTERS] for identity in wrong[:_MOST_NAMED]
    )
    more = max(len(wrong), count - len(told)) - _MOST_NAMED
    problem = f"the look-up rows of its chunks are not those of the record, at {named}" + (" ..." if more > 0 else "")
    yield Finding("mention_row", Place("mention", entry.idx, name=entry.record_id), problem)
