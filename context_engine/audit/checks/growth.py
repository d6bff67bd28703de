"""The tree while it grows, tile by tile: its root at any size on the way, in memory that does not grow with it."""

from __future__ import annotations

from typing import Final, NamedTuple

from context_engine.audit.formats.merkle import EMPTY_ROOT, HASH_BYTES, fold, node_hash

_TILE_HEIGHT: Final = 8


class UpperHash(NamedTuple):
    """A hash that a tile above level 0 should hold.

    Attributes:
        level: of the tile, from 1.
        position: of the hash among all of its level: tile position // 256, place position % 256.
        value: 32 bytes.
    """

    level: int
    position: int
    value: bytes


class Growth:
    """The perfect subtrees of a log of `tiles` full tiles, the highest first (a compact range).

    Attributes:
        tiles: full tiles of level 0 so far.
    """

    def __init__(self) -> None:
        self.tiles = 0
        self._peaks: list[tuple[int, bytes]] = []

    @classmethod
    def seeded(cls, tiles: int, hashes: list[bytes]) -> Growth:
        """Return a tree whose beginning was pruned.

        Args:
            tiles: full tiles that were pruned.
            hashes: of the subtrees of `peaks(tiles)`, in that order.
        """
        grown = cls()
        grown.tiles = tiles
        grown._peaks = [(height, value) for (_, height), value in zip(peaks(tiles), hashes, strict=True)]
        return grown

    def copy(self) -> Growth:
        """Return the same tree, to grow another way."""
        other = Growth()
        other.tiles, other._peaks = self.tiles, list(self._peaks)
        return other

    def add(self, tile_root: bytes) -> list[UpperHash]:
        """Take the root of the next full tile; return what stands in the tiles above because of it."""
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
        """Return the root of the tree with the leaves of a partial tile behind it.

        Args:
            rest: leaf hashes, 32 bytes each, fewer than 256.
        """
        value = fold(rest) if rest else None
        for _, peak in reversed(self._peaks):
            value = peak if value is None else node_hash(peak, value)
        return EMPTY_ROOT if value is None else value


def peaks(tiles: int) -> list[tuple[int, int]]:
    """Return (first tile, height) of the perfect subtrees of so many full tiles, the highest first.

    Args:
        tiles: number of tiles; a subtree of height h is over 2**h of them.
    """
    found, start = [], 0
    for height in range(tiles.bit_length() - 1, -1, -1):
        if tiles >> height & 1:
            found.append((start, height))
            start += 1 << height
    return found


def hash_at(hashes: bytes, place: int) -> bytes:
    """Return the hash at a place of a tile, b"" where there is none."""
    return hashes[place * HASH_BYTES : (place + 1) * HASH_BYTES]
