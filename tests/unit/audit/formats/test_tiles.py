"""Tiles: where they stand, how they grow, and that they are the same tree."""

from __future__ import annotations

import hashlib

import pytest

from context_engine.audit.formats.merkle import fold, root
from context_engine.audit.formats.tiles import (
    TileTree,
    append_leaves,
    bundle_path,
    index_path,
    pack_entries,
    tile_path,
    tile_width,
    tiles_of,
    unpack_entries,
)

MANY = [hashlib.sha256(str(number).encode()).digest() for number in range(70_000)]


def leaves(count: int) -> list[bytes]:
    return MANY[:count]


class Tiles(dict[tuple[int, int], bytes]):
    """A source of tiles that counts what is asked of it."""

    asked = 0

    def __call__(self, level: int, index: int, width: int) -> bytes:
        self.asked += 1
        return self[level, index][: width * 32]


def grown(count: int, *, by: int | None = None) -> Tiles:
    tiles, every = Tiles(), leaves(count)
    for size in range(0, count, by or count or 1):
        tiles.update(append_leaves(tiles, size, every[size : size + (by or count)]))
    return tiles


@pytest.mark.parametrize(
    ("index", "path"), [(0, "000"), (7, "007"), (1000, "x001/000"), (67_999, "x067/999"), (1_234_067, "x001/x234/067")]
)
def test_an_index_is_written_in_groups_of_three_digits(index: int, path: str) -> None:
    assert index_path(index) == path


def test_a_partial_tile_says_its_width() -> None:
    assert tile_path(0, 273, 112) == "tile/0/273.p/112"
    assert tile_path(1, 0) == "tile/1/000"
    assert bundle_path(1273, 1) == "tile/entries/x001/273.p/1"


def test_the_tiles_of_70000_are_those_that_the_specification_counts() -> None:
    found = list(tiles_of(70_000))
    assert sum(level == 0 and width == 256 for level, _, width in found) == 273
    assert [one for one in found if one[2] < 256] == [(0, 273, 112), (1, 1, 17), (2, 0, 1)]
    assert len(found) == 273 + 1 + 2 + 1  # one full tile of level 1


def test_a_tree_of_256_has_a_full_tile_and_a_partial_one_above_it() -> None:
    assert list(tiles_of(256)) == [(0, 0, 256), (1, 0, 1)]
    assert list(tiles_of(0)) == []
    assert tile_width(0, 1, 256) == 0


@pytest.mark.parametrize("size", [0, 1, 2, 255, 256, 257, 511, 512, 513, 65_535, 65_536, 65_537])
def test_the_root_from_tiles_is_that_of_the_leaves(size: int) -> None:
    tiles = grown(size)
    assert TileTree(tiles, size).root() == root(leaves(size))
    assert {(level, index): width * 32 for level, index, width in tiles_of(size)} == {
        place: len(hashes) for place, hashes in tiles.items()
    }


@pytest.mark.parametrize("by", [1, 7, 255, 256, 257, 600])
def test_tiles_are_the_same_whatever_the_steps_they_grew_in(by: int) -> None:
    assert grown(1100, by=by) == grown(1100)


def test_appending_reads_one_tile_of_a_level_and_returns_what_changed() -> None:
    tiles = grown(66_000)
    changed = append_leaves(tiles, 66_000, leaves(1))
    assert set(changed) == {(0, 257)}
    assert tiles.asked == 1
    tiles.asked = 0
    changed = append_leaves(tiles, 66_000, leaves(256))
    assert set(changed) == {(0, 257), (0, 258), (1, 1)}
    assert changed[1, 1][-32:] == fold(changed[0, 257])
    assert tiles.asked == 2


def test_appending_nothing_changes_nothing() -> None:
    assert append_leaves(grown(300), 300, []) == {}


def test_an_older_tree_is_read_from_the_tiles_of_a_newer_one() -> None:
    tiles, every = grown(70_000), leaves(70_000)
    for size in (1, 255, 256, 300, 65_536, 69_999):
        assert TileTree(tiles, size).root() == root(every[:size])


def test_each_tile_is_read_once() -> None:
    tiles = grown(70_000)
    tree = TileTree(tiles, 70_000)
    for index in range(300, 500):
        tree.inclusion_proof(index)
    assert tree.leaf(300) == leaves(301)[300]
    assert tiles.asked == 4  # (0, 1) itself, (1, 0) above it, and the two partial ones of the rest


def test_a_tile_of_the_wrong_length_is_refused() -> None:
    tiles = grown(300)
    tiles[0, 1] = tiles[0, 1][:-1]
    with pytest.raises(ValueError, match="tile 0/1 has 1407 bytes instead of 1408"):
        TileTree(tiles, 300).root()
    with pytest.raises(ValueError, match="tile 0/1"):
        append_leaves(tiles, 300, leaves(1))


def test_what_was_pruned_is_not_needed_for_what_is_left() -> None:
    size, minimum, every = 70_000, 66_000, leaves(70_000)
    tiles = grown(size)
    for level, index, _ in list(tiles_of(size)):
        if (index + 1) * 256 ** (level + 1) <= minimum:
            del tiles[level, index]
    assert (0, 256) not in tiles and (1, 0) not in tiles
    tree = TileTree(tiles, size)
    assert tree.root() == root(every)
    assert len(tree.inclusion_proof(minimum)) == len(tree.inclusion_proof(69_000)) > 10
    assert tree.consistency_proof(minimum)
    with pytest.raises(KeyError):
        tree.inclusion_proof(65_000)


def test_each_entry_stands_behind_its_length() -> None:
    assert pack_entries([b"one", b"", b"three"]) == b"\x00\x03one\x00\x00\x00\x05three"
    assert unpack_entries(b"\x00\x03one\x00\x00\x00\x05three") == [b"one", b"", b"three"]
    assert unpack_entries(b"") == []


def test_an_entry_has_at_most_65535_bytes() -> None:
    assert unpack_entries(pack_entries([b"x" * 65_535])) == [b"x" * 65_535]
    with pytest.raises(OverflowError):
        pack_entries([b"x" * 65_536])


@pytest.mark.parametrize("bundle", [b"\x00", b"\x00\x01", b"\x00\x03on", b"\x00\x00\x00"])
def test_a_bundle_that_was_cut_is_refused(bundle: bytes) -> None:
    with pytest.raises(ValueError, match="in the middle"):
        unpack_entries(bundle)
