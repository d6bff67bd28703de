"""Tiles and entry bundles of a log (C2SP tlog-tiles): the hashes of the tree and their entries, 256 at a time."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final

from context_engine.audit.formats.merkle import (
    EMPTY_ROOT,
    HASH_BYTES,
    consistency_ranges,
    fold,
    inclusion_ranges,
    subtree_hash,
)

TILE_WIDTH: Final = 256
_TILE_HEIGHT: Final = 8  # 2**8 == 256
TileSource = Callable[[int, int, int], bytes]
"""Returns the first `width` hashes, 32 bytes each, of the tile at (level, index)."""

Tiles = dict[tuple[int, int], bytes]
"""The hashes of tiles by (level, index)."""


def tile_width(level: int, index: int, size: int) -> int:
    """Return the number of hashes, 0..256, of the tile at (level, index) in a tree of this size."""
    return max(0, min(TILE_WIDTH, (size >> _TILE_HEIGHT * level) - TILE_WIDTH * index))


def tiles_of(size: int) -> Iterator[tuple[int, int, int]]:
    """Yield (level, index, width) of every tile of a tree of this size, level by level."""
    level = 0
    while hashes := size >> _TILE_HEIGHT * level:
        for index in range(-(-hashes // TILE_WIDTH)):
            yield level, index, tile_width(level, index, size)
        level += 1


def index_path(index: int) -> str:
    """Return a tile's index as a path: 1234067 is x001/x234/067."""
    groups = [f"{index % 1000:03d}"]
    while index := index // 1000:
        groups.append(f"x{index % 1000:03d}")
    return "/".join(reversed(groups))


def tile_path(level: int, index: int, width: int = TILE_WIDTH) -> str:
    """Return the path of a tile: tile/<level>/<index>, with .p/<width> if it is partial."""
    return f"tile/{level}/{index_path(index)}{_partial(width)}"


def bundle_path(index: int, width: int = TILE_WIDTH) -> str:
    """Return the path of the entries of a level-0 tile."""
    return f"tile/entries/{index_path(index)}{_partial(width)}"


def _partial(width: int) -> str:
    return "" if width == TILE_WIDTH else f".p/{width}"


def append_leaves(source: TileSource, size: int, leaves: Iterable[bytes]) -> Tiles:
    """Return the tiles that change when leaf hashes are appended, each with all of its hashes.

    Args:
        source: the present tiles; at most one of each level is read.

    Raises:
        ValueError: a present tile is too short.
    """
    changed: Tiles = {}
    level, added = 0, b"".join(leaves)
    while added:
        position = size >> _TILE_HEIGHT * level
        index, width = divmod(position, TILE_WIDTH)
        hashes = (_read(source, level, index, width) if width else b"") + added
        roots = []
        for start in range(0, len(hashes), TILE_WIDTH * HASH_BYTES):
            tile = hashes[start : start + TILE_WIDTH * HASH_BYTES]
            changed[level, index] = tile
            index += 1
            if len(tile) == TILE_WIDTH * HASH_BYTES:
                roots.append(fold(tile))
        level, added = level + 1, b"".join(roots)
    return changed


def _read(source: TileSource, level: int, index: int, width: int) -> bytes:
    hashes = source(level, index, width)
    if len(hashes) != width * HASH_BYTES:
        raise ValueError(f"tile {level}/{index} has {len(hashes)} bytes instead of {width * HASH_BYTES}")
    return hashes


class TileTree:
    """A tree of a given size, read from its tiles, each at most once.

    After pruning it still gives what C2SP requires: roots, inclusion proofs, and consistency proofs from the minimum
    index on.

    Args:
        source: gives the tiles of this tree, or of a later tree of the same log.
        size: number of leaves.
    """

    def __init__(self, source: TileSource, size: int) -> None:
        self.size = size
        self._source = source
        self._tiles: Tiles = {}

    def leaf(self, index: int) -> bytes:
        """Return the leaf hash at index."""
        return self._perfect(index, 0)

    def root(self) -> bytes:
        """Return the root."""
        return self._subtree(0, self.size) if self.size else EMPTY_ROOT

    def inclusion_proof(self, index: int) -> tuple[bytes, ...]:
        """Return the hashes that prove the leaf at index, its sibling first.

        Raises:
            IndexError: there is no such leaf.
        """
        return tuple(self._subtree(start, end) for start, end in inclusion_ranges(index, self.size))

    def consistency_proof(self, old: int) -> tuple[bytes, ...]:
        """Return the hashes that prove that this tree begins with the tree of `old` leaves.

        Raises:
            IndexError: old is not in 0..size.
        """
        return tuple(self._subtree(start, end) for start, end in consistency_ranges(old, self.size))

    def _subtree(self, start: int, end: int) -> bytes:
        return subtree_hash(start, end, self._perfect)

    def _perfect(self, start: int, height: int) -> bytes:
        """Return the hash over [start, start + 2**height), a run of hashes in one tile."""
        level, within = divmod(height, _TILE_HEIGHT)
        index, offset = divmod(start >> _TILE_HEIGHT * level, TILE_WIDTH)
        hashes = self._tile(level, index)
        return fold(hashes[offset * HASH_BYTES : (offset + (1 << within)) * HASH_BYTES])

    def _tile(self, level: int, index: int) -> bytes:
        hashes = self._tiles.get((level, index))
        if hashes is None:
            hashes = _read(self._source, level, index, tile_width(level, index, self.size))
            self._tiles[level, index] = hashes
        return hashes


_LENGTH: Final = 2  # bytes, big-endian


def pack_entries(entries: Iterable[bytes]) -> bytes:
    """Return an entry bundle.

    Raises:
        OverflowError: an entry has more than 65,535 bytes.
    """
    return b"".join(part for entry in entries for part in (len(entry).to_bytes(_LENGTH, "big"), entry))


def unpack_entries(bundle: bytes) -> list[bytes]:
    """Return the entries of a bundle.

    Raises:
        ValueError: it ends within an entry.
    """
    entries, at = [], 0
    while at < len(bundle):
        start = at + _LENGTH
        at = start + int.from_bytes(bundle[at:start], "big")
        if start > len(bundle) or at > len(bundle):
            raise ValueError("the bundle ends in the middle of an entry")
        entries.append(bundle[start:at])
    return entries
