"""Where a log has anything: the stretches of tiles to read, found without reading them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from sqlalchemy import Connection

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.formats.merkle import HASH_BYTES
from context_engine.audit.formats.tiles import TILE_WIDTH, tile_width

_MOST_TILES: Final = 1 << 55
_MOST_LEVELS: Final = 8


@dataclass(frozen=True, slots=True)
class LogExtent:
    """What there is of a log.

    Attributes:
        stretches: ranges of tiles of level 0 that have rows or hashes, in order.
        size: of the log: one more than the index of the last row or hash.
    """

    stretches: tuple[range, ...]
    size: int

    def width(self, number: int) -> int:
        """Return how many rows a tile of level 0 should have."""
        return min(TILE_WIDTH, self.size - number * TILE_WIDTH)


def find_extent(connection: Connection, length: int) -> LogExtent:
    """Return what there is of a log; a row far behind the others costs nothing.

    Args:
        length: of a stretch, in tiles.
    """
    newest = connection.exec_driver_sql("SELECT max(idx) FROM log WHERE idx >= 0").scalar()
    rows = newest + 1 if isinstance(newest, int) else 0
    last = connection.exec_driver_sql(
        f"SELECT max(idx) FROM tile WHERE level = 0 AND idx >= 0 AND idx < {_MOST_TILES:d}"
    ).scalar()
    hashes = 0
    if isinstance(last, int):
        tile = connection.exec_driver_sql(f"SELECT hashes FROM tile WHERE level = 0 AND idx = {last:d}").scalar()
        held = len(tile) // HASH_BYTES if isinstance(tile, bytes) else 0
        hashes = last * TILE_WIDTH + min(held, TILE_WIDTH)
    size = max(rows, hashes)
    return LogExtent(tuple(_stretches(connection, -(-size // TILE_WIDTH), length)), size)


def stray_rows(connection: Connection, size: int) -> Iterator[Finding]:
    """Yield rows and tiles where no log has any.

    Args:
        size: of the log.
    """
    for (index,) in connection.exec_driver_sql(f"SELECT idx FROM log WHERE NOT (idx >= 0 AND idx < {size:d})"):
        yield Finding("gap", Place("log", index), "the row stands before the beginning of the log")
    number = -(-size // TILE_WIDTH)
    strays = connection.exec_driver_sql(
        f"SELECT level, idx FROM tile WHERE NOT (level = 0 AND idx >= 0 AND idx < {number:d}) ORDER BY level, idx"
    )
    for level, index in strays:
        whole = isinstance(level, int) and isinstance(index, int) and 0 < level < _MOST_LEVELS and index >= 0
        if not whole or not tile_width(level, index, size):
            place = Place("tile", index if isinstance(index, int) else None, name=f"level {level}")
            yield Finding("tile_extra", place, "the log has no such tile")


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
