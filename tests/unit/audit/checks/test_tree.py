"""A tree that grows tile by tile has the roots and tiles of one that is made at once, and finds tiles that differ."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.audit.checks.rows import Block
from context_engine.audit.checks.tree import Growth, Tree, peaks, read_upper
from context_engine.audit.formats.merkle import EMPTY_ROOT, fold
from context_engine.audit.formats.tiles import append_leaves
from context_engine.audit.ledger.signing import row_mac, row_macs
from tests.unit.audit.checks.logs import Hand, open_log


def tile_roots(count: int) -> list[bytes]:
    return [hashlib.sha256(b"tile %d" % number).digest() for number in range(count)]


@given(tiles=st.integers(0, 700), rest=st.integers(0, 255))
def test_the_root_is_that_of_all_hashes_at_once(tiles: int, rest: int) -> None:
    roots, leaves = tile_roots(tiles), b"".join(tile_roots(rest))
    growth = Growth()
    for one in roots:
        growth.add(one)
    behind = [fold(leaves)] if rest else []
    assert growth.root(leaves) == fold(b"".join([*roots, *behind]))


def test_an_empty_tree_has_the_hash_of_nothing() -> None:
    assert Growth().root() == EMPTY_ROOT


def test_the_256th_tile_gives_the_first_hash_of_level_2() -> None:
    roots, growth = tile_roots(256), Growth()
    above = [growth.add(one) for one in roots]
    assert [one.value for made in above for one in made if one.level == 1] == roots
    assert [(one.position, one.value) for one in above[255] if one.level == 2] == [(0, fold(b"".join(roots)))]
    assert all(one.level == 1 for made in above[:255] for one in made)


@given(pruned=st.integers(1, 300), more=st.integers(0, 50))
def test_a_tree_whose_beginning_was_pruned_grows_on(pruned: int, more: int) -> None:
    roots = tile_roots(pruned + more)
    kept = [fold(b"".join(roots[start : start + (1 << height)])) for start, height in peaks(pruned)]
    growth = Growth.seeded(pruned, kept)
    for one in roots[pruned:]:
        growth.add(one)
    assert growth.root() == fold(b"".join(roots))


def test_peaks_are_the_powers_of_two_of_a_number() -> None:
    # 13 = 8 + 4 + 1
    assert peaks(13) == [(0, 3), (8, 2), (12, 0)]


@given(
    key=st.binary(min_size=1, max_size=64), index=st.integers(0, 2**63 - 1), leaf=st.binary(min_size=32, max_size=32)
)
def test_macs_of_many_rows_are_those_of_one(key: bytes, index: int, leaf: bytes) -> None:
    assert row_macs(key)(index, leaf) == row_mac(key, index, leaf)


SIZE = 3 * 256 + 20
LEAVES = [hashlib.sha256(b"leaf %d" % number).digest() for number in range(SIZE)]
UPPER = {at: hashes for at, hashes in append_leaves(lambda *_: b"", 0, LEAVES).items() if at[0]}


def blocks(leaves: Sequence[bytes] = LEAVES, *, likely: Sequence[bytes] | None = None) -> list[Block]:
    likely = leaves if likely is None else likely
    starts = range(0, len(leaves), 256)
    return [
        Block(start // 256, b"".join(leaves[start : start + 256]), b"".join(likely[start : start + 256]))
        for start in starts
    ]


def grown(
    read: Sequence[Block],
    sizes: Sequence[int] = (),
    upper: dict[tuple[int, int], bytes] = UPPER,
    *,
    minimum: int = 0,
) -> tuple[Tree, list[tuple[str, str]]]:
    tree = Tree(sizes, SIZE, minimum, upper)
    found = [one for block in read for one in tree.add(block)]
    return tree, [(one.code, str(one.where)) for one in [*found, *tree.widths()]]


SIZES = (0, 1, 255, 256, 257, 300, 512, 768, 769, SIZE)


def test_the_root_at_every_size_is_that_of_the_leaves_before_it() -> None:
    tree, found = grown(blocks(), [*SIZES, SIZE + 1])
    assert found == []
    assert tree.roots == {size: (fold(b"".join(LEAVES[:size])),) for size in SIZES}


def test_where_rows_were_changed_there_are_two_roots_from_there_on() -> None:
    changed = [*LEAVES[:300], bytes(32), *LEAVES[301:]]
    tree, found = grown(blocks(changed, likely=LEAVES), SIZES)
    assert found == []  # the tile above has the hash of what was likely there
    for size in SIZES:
        was, now = fold(b"".join(LEAVES[:size])), fold(b"".join(changed[:size]))
        assert tree.roots[size] == ((was,) if size <= 300 else (now, was))


@pytest.mark.parametrize(
    ("hashes", "place"),
    [
        (UPPER[1, 0][:32] + bytes(32) + UPPER[1, 0][64:], "hash 1"),
        (UPPER[1, 0][:64], "hash 2"),
    ],
)
def test_a_tile_above_that_differs_from_the_one_below_is_found(hashes: bytes, place: str) -> None:
    tree, found = grown(blocks(), SIZES, {(1, 0): hashes})
    assert found == [("tile_hash", f"tile 0 (level 1, {place})")]
    assert tree.roots[SIZE] == (fold(b"".join(LEAVES)),)


def test_a_tile_above_that_is_too_wide_is_found() -> None:
    _, found = grown(blocks(), (), {(1, 0): UPPER[1, 0] + bytes(32), (1, 9): b""})
    assert found == [("tile_extra", "tile 0 (level 1)")]


def test_missing_tiles_are_a_gap_and_there_is_no_root_behind_them() -> None:
    first, _, third, last = blocks()
    tree, found = grown([first, third, last], SIZES)
    assert found == [("gap", "log 256-511")]
    assert sorted(tree.roots) == [0, 1, 255, 256]
    tree, found = grown([third, last], SIZES, minimum=256)  # pruned up to a place within what is missing
    assert found == [("gap", "log 256-511")]
    assert tree.roots == {}


def test_the_roots_behind_pruned_tiles_are_made_of_the_tiles_above() -> None:
    _, _, third, last = blocks()
    tree, found = grown([third, last], SIZES, minimum=512)
    assert found == []
    assert tree.roots == {size: (fold(b"".join(LEAVES[:size])),) for size in SIZES if size >= 512}
    tree, _ = grown([third, last], (300, 600), minimum=512)
    assert tree.roots == {600: (fold(b"".join(LEAVES[:600])),)}


@pytest.mark.parametrize("upper", [{}, {(1, 0): UPPER[1, 0][:32]}])
def test_the_tiles_above_pruned_ones_must_be_there(upper: dict[tuple[int, int], bytes]) -> None:
    _, _, third, last = blocks()
    tree, found = grown([third, last], SIZES, upper, minimum=512)
    assert found[0] == ("tile_missing", "tile 0-1")
    assert tree.roots == {}


def test_upper_tiles_of_a_wrong_type_are_left_out(tmp_path: Path) -> None:
    open_log(tmp_path / "ledger.db").close()
    hand = Hand(tmp_path / "ledger.db")
    hand.many(
        "INSERT INTO tile VALUES (?, ?, ?)",
        [(1, 0, b"x"), (0, 0, b"x"), (1, -1, b"x"), (1, "text", b"x"), ("text", 1, b"x"), (1, 2, "text"), (2, 3, b"y")],
    )
    with open_log(hand.place) as ledger, ledger.database.connect() as connection:
        assert read_upper(connection) == {(1, 0): b"x", (2, 3): b"y"}


def test_a_checkpoint_at_the_end_of_the_pruned_tiles_has_its_root() -> None:
    tree, found = grown(blocks()[2:], [512], minimum=512)
    assert found == []
    assert tree.roots == {512: (fold(b"".join(LEAVES[:512])),)}


@pytest.mark.parametrize(("minimum", "missing"), [(65_536, 0), (65_535, 3)])
def test_a_tile_above_may_be_gone_if_all_that_it_covers_was_pruned(minimum: int, missing: int) -> None:
    """A tile of level 1 covers 256 tiles of 256 records."""
    _, found = grown(blocks(), upper={}, minimum=minimum)
    assert len(found) == missing


def test_tiles_above_that_are_too_wide_are_told_in_their_order() -> None:
    wide = {(1, 0): UPPER[1, 0] + bytes(64), (1, 1): bytes(32)}
    tree = Tree([], SIZE, 0, dict(reversed(wide.items())))
    assert [str(one.where) for one in tree.widths()] == ["tile 0 (level 1)"]
