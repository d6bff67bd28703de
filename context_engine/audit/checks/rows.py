"""Check the rows of the log against their entries, MACs and level-0 tiles, and find its extent."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, groupby
from typing import Final, NamedTuple

from sqlalchemy import Connection

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.formats.merkle import HASH_BYTES
from context_engine.audit.formats.tiles import TILE_WIDTH, tile_width

_ABSENT: Final = bytes(HASH_BYTES)  # stands for a missing hash
_AT_ONCE: Final = 4 * TILE_WIDTH  # rows fetched from the cursor at once
Macs = Mapping[str, Callable[[int, bytes], bytes]]
"""The MAC function (index, leaf) -> MAC by key id."""


class LogRow(NamedTuple):
    """A row of the log; a value of a wrong type is read as b"".

    Attributes:
        idx: index in the log.
        entry: the stored bytes; None if pruned.
        leaf: the stored leaf hash.
        mac, key_id: None if the row has none.
    """

    idx: int
    entry: bytes | None
    leaf: bytes
    mac: bytes | None
    key_id: str | None


class KeyRun(NamedTuple):
    """The rows [start, end), all under one key; a key_id of None means without a MAC."""

    key_id: str | None
    start: int
    end: int


class Block(NamedTuple):
    """The leaf hashes of one level-0 tile: as stored, and the likely hashes before any change.

    Attributes:
        number: index of the tile.
        leaves: 32 bytes per row; the tile's own hash where the row is missing.
        likely: where row and tile differ, the row's hash if its MAC is valid, else the tile's.
    """

    number: int
    leaves: bytes
    likely: bytes


def read_rows(connection: Connection, start: int, end: int) -> Iterator[list[LogRow]]:
    """Yield the rows [start, end) in order, one list per tile that has any."""
    # Integers are formatted into the SQL because the two drivers use different parameter styles.
    result = connection.exec_driver_sql(
        f"SELECT idx, entry, leaf, mac, key_id FROM log WHERE idx >= {start:d} AND idx < {end:d} ORDER BY idx"
    )
    rows_in_order = chain.from_iterable(result.partitions(_AT_ONCE))
    for _, rows in groupby(rows_in_order, key=lambda row: int(row[0]) // TILE_WIDTH):
        yield [
            LogRow(
                index,
                None if entry is None else _as_bytes(entry),
                _as_hash(leaf),
                None if mac is None else _as_bytes(mac),
                None if key_id is None else str(key_id),
            )
            for index, entry, leaf, mac, key_id in rows
        ]


def read_level_0(connection: Connection, start: int, end: int) -> dict[int, bytes]:
    """Return the hashes of the level-0 tiles [start, end) by tile index."""
    rows = connection.exec_driver_sql(
        f"SELECT idx, hashes FROM tile WHERE level = 0 AND idx >= {start:d} AND idx < {end:d}"
    )
    return {int(number): _as_bytes(hashes)[: TILE_WIDTH * HASH_BYTES] for number, hashes in rows}


def check_block(
    number: int, width: int, rows: list[LogRow], tile: bytes, macs: Macs, minimum: int
) -> tuple[Block, list[Finding]]:
    """Check the rows of one tile, and the stored tile against them.

    Args:
        number: index of the tile.
        width: number of rows expected.
        tile: the stored hashes.
        macs: MAC functions of the available keys; MACs under other keys are not compared.
    """
    first = number * TILE_WIDTH
    findings = [finding for row in rows for finding in _row_findings(row, macs, minimum)]
    leaves = b"".join([row.leaf for row in rows])
    if leaves == tile and len(leaves) == width * HASH_BYTES:
        return Block(number, leaves, leaves), findings
    by_row = {row.idx: row.leaf for row in rows}
    edited = {finding.where.first for finding in findings if finding.code == "row_mac"}
    sealed = {row.idx for row in rows if row.mac is not None and row.key_id in macs} - edited
    ours, likely = [], []
    for index in range(first, first + width):
        leaf = by_row.get(index)
        hashed = tile[(index - first) * HASH_BYTES :][:HASH_BYTES]
        if len(hashed) < HASH_BYTES:
            hashed = b""
        findings.extend(_leaf_findings(index, leaf, hashed, pruned=index < minimum))
        ours.append(leaf or hashed or _ABSENT)
        likely.append(ours[-1] if index in sealed else hashed or ours[-1])
    if len(tile) % HASH_BYTES or len(tile) > width * HASH_BYTES:
        place = Place("tile", number, name="level 0")
        findings.append(Finding("tile_hash", place, "the tile's length is not that of its hashes"))
    return Block(number, b"".join(ours), b"".join(likely)), findings


def key_runs(rows: Sequence[LogRow]) -> list[KeyRun]:
    """Group rows, given in order, into runs under one key."""
    runs: list[KeyRun] = []
    for key_id, group in groupby(rows, key=lambda row: row.key_id if row.mac is not None else None):
        indices = [row.idx for row in group]
        start, end = indices[0], indices[-1] + 1
        if end - start == len(indices):
            runs.append(KeyRun(key_id, start, end))
        else:
            runs.extend(KeyRun(key_id, index, index + 1) for index in indices)
    return runs


def _row_findings(row: LogRow, macs: Macs, minimum: int) -> Iterator[Finding]:
    index, entry, leaf, mac, key_id = row
    if entry is None:
        if index >= minimum:
            yield Finding("entry_missing", Place("log", index), "the entry is missing, and no pruning removed it")
    elif index < minimum:
        yield Finding("entry_not_pruned", Place("log", index), "the entry is present although it was pruned")
    elif hashlib.sha256(b"\x00" + entry).digest() != leaf:
        yield Finding("entry_hash", Place("log", index), "the entry does not match its leaf hash")
    if mac is not None or key_id is not None:
        make = macs.get(key_id or "")
        if mac is None or key_id is None:
            yield Finding("row_mac", Place("log", index), "the row has a key id without a MAC, or the reverse")
        elif make is not None and make(index, leaf) != mac:
            yield Finding("row_mac", Place("log", index), _moved(row, make))


def _moved(row: LogRow, make: Callable[[int, bytes], bytes]) -> str:
    for step in (-1, 1):
        if row.idx + step >= 0 and make(row.idx + step, row.leaf) == row.mac:
            return f"the MAC belongs to the index one {'below' if step < 0 else 'above'}: the row was moved"
    return "the MAC does not match index and leaf hash: the row was edited, moved or inserted"


def _leaf_findings(index: int, leaf: bytes | None, hashed: bytes, *, pruned: bool) -> Iterator[Finding]:
    """Compare the leaf hash of a row (None: no row) with the tile's (b"": none)."""
    if leaf is None:
        if not pruned:
            problem = "the row is missing; its tile still has the hash" if hashed else "row and tile hash are missing"
            yield Finding("gap", Place("log", index), problem)
    elif not hashed:
        if not pruned:
            yield Finding("tile_missing", Place("log", index), "the hash of the row is missing from its tile")
    elif leaf != hashed:
        yield Finding("tile_hash", Place("log", index), "row and tile have different leaf hashes: one was changed")


def _as_bytes(value: object) -> bytes:
    return value if type(value) is bytes else bytes(value) if isinstance(value, memoryview | bytearray) else b""


def _as_hash(value: object) -> bytes:
    data = _as_bytes(value)
    return data if len(data) == HASH_BYTES else _ABSENT


_MOST_TILES: Final = 1 << 55  # beyond, the index of a record would not fit 63 bits
_MOST_LEVELS: Final = 8  # level 8 would need 256**8 = 2**64 records


@dataclass(frozen=True, slots=True)
class LogExtent:
    """How far a log reaches.

    Attributes:
        stretches: ranges of level-0 tiles that have rows or hashes, in order.
        size: one more than the index of the last row or hash.
    """

    stretches: tuple[range, ...]
    size: int

    def width(self, number: int) -> int:
        """Return the number of rows that a level-0 tile should have."""
        return min(TILE_WIDTH, self.size - number * TILE_WIDTH)


def find_extent(connection: Connection, length: int) -> LogExtent:
    """Return the extent of a log; a single row far behind the others does not make the check slower.

    Args:
        length: length of a stretch, in tiles.
    """
    newest = connection.exec_driver_sql("SELECT max(idx) FROM log WHERE idx >= 0").scalar()
    rows = newest + 1 if isinstance(newest, int) else 0
    last = connection.exec_driver_sql(
        f"SELECT max(idx) FROM tile WHERE level = 0 AND idx >= 0 AND idx < {_MOST_TILES:d}"
    ).scalar()
    hashes = 0
    if isinstance(last, int):
        tile = connection.exec_driver_sql(f"SELECT hashes FROM tile WHERE level = 0 AND idx = {last:d}").scalar()
        count = len(tile) // HASH_BYTES if isinstance(tile, bytes) else 0
        hashes = last * TILE_WIDTH + min(count, TILE_WIDTH)
    size = max(rows, hashes)
    return LogExtent(tuple(_stretches(connection, -(-size // TILE_WIDTH), length)), size)


def stray_rows(connection: Connection, size: int) -> Iterator[Finding]:
    """Yield the rows and tiles outside a log of this size."""
    for (index,) in connection.exec_driver_sql(f"SELECT idx FROM log WHERE NOT (idx >= 0 AND idx < {size:d})"):
        yield Finding("gap", Place("log", index), "the row lies before the beginning of the log")
    number = -(-size // TILE_WIDTH)
    strays = connection.exec_driver_sql(
        f"SELECT level, idx FROM tile WHERE NOT (level = 0 AND idx >= 0 AND idx < {number:d}) ORDER BY level, idx"
    )
    for level, index in strays:
        valid = isinstance(level, int) and isinstance(index, int) and 0 < level < _MOST_LEVELS and index >= 0
        if not valid or not tile_width(level, index, size):
            place = Place("tile", index if isinstance(index, int) else None, name=f"level {level}")
            yield Finding("tile_extra", place, "a log of this size has no such tile")


def _stretches(connection: Connection, end: int, length: int) -> Iterator[range]:
    start = 0
    while start < end:
        row = connection.exec_driver_sql(f"SELECT min(idx) FROM log WHERE idx >= {start * TILE_WIDTH:d}").scalar()
        tile = connection.exec_driver_sql(
            f"SELECT min(idx) FROM tile WHERE level = 0 AND idx >= {start:d} AND idx < {_MOST_TILES:d}"
        ).scalar()
        next_ones = [row // TILE_WIDTH] if isinstance(row, int) else []
        next_ones += [tile] if isinstance(tile, int) else []
        if not next_ones:
            return
        start = min(next_ones)
        yield range(start, min(start + length, end))
        start += length
