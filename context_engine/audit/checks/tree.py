"""Recompute the Merkle tree over the log: its root at each checkpoint size, and the tiles above level 0."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy import Connection

from context_engine.audit.checks.findings import Finding, Place
from context_engine.audit.checks.rows import Block
from context_engine.audit.formats.merkle import EMPTY_ROOT, HASH_BYTES, fold, node_hash
from context_engine.audit.formats.tiles import TILE_WIDTH, tile_width

_TILE_HEIGHT: Final = 8  # Levels of the tree in one tile: 2**8 == TILE_WIDTH.
Upper = Mapping[tuple[int, int], bytes]
"""The stored tiles above level 0 by (level, index)."""


def read_upper(connection: Connection) -> dict[tuple[int, int], bytes]:
    rows = connection.exec_driver_sql("SELECT level, idx, hashes FROM tile WHERE level > 0 AND idx >= 0")
    # In SQLite any column may hold a value of any type.
    return {
        (level, index): hashes
        for level, index, hashes in rows
        if isinstance(level, int) and isinstance(index, int) and isinstance(hashes, bytes)
    }


class Tree:
    """Grows block by block, from the stored leaves and, once they differ, also from the likely original ones.

    Args:
        sizes: sizes at which the root is needed.
        size: size of the log.
        minimum: records below this index were pruned.
        upper: the stored tiles above level 0.
    """

    def __init__(self, sizes: Sequence[int], size: int, minimum: int, upper: Upper) -> None:
        self.roots: dict[int, tuple[bytes, ...]] = {}
        self._left = sorted({wanted for wanted in sizes if wanted <= size}, reverse=True)
        self._size, self._minimum, self._upper = size, minimum, upper
        self._rows: Growth | None = Growth()
        self._likely: Growth | None = None
        self._next = 0

    def add(self, block: Block) -> Iterator[Finding]:
        """Add the next level-0 tile present; yield the findings on the tiles above it."""
        if block.number != self._next:
            yield from self._skip(block.number)
        self._next = block.number + 1
        if self._rows is None:
            return
        first = block.number * TILE_WIDTH
        while self._left and self._left[-1] <= first + len(block.leaves) // HASH_BYTES:
            size = self._left.pop()
            if size - first < TILE_WIDTH:
                self._note(size, block, (size - first) * HASH_BYTES)
            else:
                self._left.append(size)
                break
        if len(block.leaves) == TILE_WIDTH * HASH_BYTES:
            yield from self._grow(block)
            if self._left and self._left[-1] == first + TILE_WIDTH:
                self._note(self._left.pop(), block, 0)

    def widths(self) -> Iterator[Finding]:
        """Yield the tiles above level 0 that hold more hashes than a log of this size has."""
        for (level, index), hashes in sorted(self._upper.items()):
            width = tile_width(level, index, self._size)
            if width and len(hashes) > width * HASH_BYTES:
                place = Place("tile", index, name=f"level {level}")
                yield Finding("tile_extra", place, f"the tile has more than the {width} hashes that it should have")

    def _note(self, size: int, block: Block, rest: int) -> None:
        if self._rows is None:
            return
        by_rows = self._rows.root(block.leaves[:rest])
        grown = self._likely or self._rows
        by_likely = grown.root(block.likely[:rest])
        self.roots[size] = (by_rows,) if by_rows == by_likely else (by_rows, by_likely)

    def _grow(self, block: Block) -> Iterator[Finding]:
        if self._rows is None:
            return
        if self._likely is None and block.likely != block.leaves:
            self._likely = self._rows.copy()
        made = self._rows.add(fold(block.leaves))
        others = made if self._likely is None else self._likely.add(fold(block.likely))
        for upper, other in zip(made, others, strict=True):
            index, place = divmod(upper.position, TILE_WIDTH)
            stored = hash_at(self._upper.get((upper.level, index), b""), place)
            if stored not in (upper.value, other.value) and not self._is_pruned(upper):
                where = Place("tile", index, name=f"level {upper.level}, hash {place}")
                problem = "the hash does not match the tile below" if stored else "this hash is missing from the tile"
                yield Finding("tile_hash", where, problem)

    def _is_pruned(self, upper: UpperHash) -> bool:
        """Whether the tile that should hold the hash may have been pruned."""
        index = upper.position // TILE_WIDTH
        end = (index + 1) * TILE_WIDTH << _TILE_HEIGHT * upper.level
        return end <= self._minimum and (upper.level, index) not in self._upper

    def _skip(self, number: int) -> Iterator[Finding]:
        """Continue after missing tiles. Pruned tiles are taken from the tiles above; after other gaps there is no
        root.
        """
        self._likely = None
        start, end = self._next * TILE_WIDTH, number * TILE_WIDTH
        pruned = self._seed(number) if end <= self._minimum and start == 0 else None
        if pruned is not None:
            self._rows = pruned
            self._left = [size for size in self._left if size >= end]
            if self._left and self._left[-1] == end:
                self.roots[self._left.pop()] = (pruned.root(),)
            return
        self._rows = None
        if end <= self._minimum:
            problem = "the tiles above lack the hashes of pruned tiles"
            yield Finding("tile_missing", Place("tile", 0, number - 1), problem)
        else:
            place = Place("log", max(start, self._minimum), end - 1)
            yield Finding("gap", place, "rows and tile hashes are missing")

    def _seed(self, tiles: int) -> Growth | None:
        """Return the tree over pruned tiles; None if the tiles above them are missing."""
        roots = []
        for first, height in peaks(tiles):
            level, within = divmod(height, _TILE_HEIGHT)
            position = first >> height - within
            index, place = divmod(position, TILE_WIDTH)
            hashes = self._upper.get((level + 1, index), b"")[place * HASH_BYTES : (place + (1 << within)) * HASH_BYTES]
            if len(hashes) != HASH_BYTES << within:
                return None
            roots.append(fold(hashes))
        return Growth.seeded(tiles, roots)


class UpperHash(NamedTuple):
    """A hash that a tile above level 0 should hold.

    Attributes:
        level: level of the tile, from 1.
        position: position of the hash within its level: tile position // 256, place position % 256.
        value: 32 bytes.
    """

    level: int
    position: int
    value: bytes


class Growth:
    """The perfect subtrees over the `tiles` full level-0 tiles so far, the highest first (a compact range)."""

    def __init__(self) -> None:
        self.tiles = 0
        self._peaks: list[tuple[int, bytes]] = []

    @classmethod
    def seeded(cls, tiles: int, hashes: list[bytes]) -> Growth:
        """Return the tree over `tiles` pruned tiles, given the hashes of the subtrees of `peaks(tiles)` in order."""
        grown = cls()
        grown.tiles = tiles
        grown._peaks = [(height, value) for (_, height), value in zip(peaks(tiles), hashes, strict=True)]
        return grown

    def copy(self) -> Growth:
        """Return a copy that grows independently."""
        other = Growth()
        other.tiles, other._peaks = self.tiles, list(self._peaks)
        return other

    def add(self, tile_root: bytes) -> list[UpperHash]:
        """Add the root of the next full tile; return the hashes that this completes in the tiles above."""
        height, position, value = 0, self.tiles, tile_root
        self.tiles += 1
        above = [UpperHash(1, position, value)]
        while self._peaks and self._peaks[-1][0] == height:
            value = node_hash(self._peaks.pop()[1], value)
            height, position = height + 1, position >> 1
            if height % _TILE_HEIGHT == 0:
                above.append(UpperHash(1 + height // _TILE_HEIGHT, position, value))
        self._peaks.append((height, value))
        return above

    def root(self, rest: bytes = b"") -> bytes:
        """Return the root of the tree followed by a partial tile of fewer than 256 leaf hashes."""
        value = fold(rest) if rest else None
        for _, peak in reversed(self._peaks):
            value = peak if value is None else node_hash(peak, value)
        return EMPTY_ROOT if value is None else value


def peaks(tiles: int) -> list[tuple[int, int]]:
    """Return (first tile, height) of the perfect subtrees over `tiles` full tiles, the highest first.

    A subtree of height h covers 2**h tiles.
    """
    subtrees, start = [], 0
    for height in range(tiles.bit_length() - 1, -1, -1):
        if tiles >> height & 1:
            subtrees.append((start, height))
            start += 1 << height
    return subtrees


def hash_at(hashes: bytes, place: int) -> bytes:
    """Return the hash at a place of a tile, b"" if there is none."""
    return hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]
