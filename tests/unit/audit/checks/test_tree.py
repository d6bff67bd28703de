"""A tree that grows tile by tile has the roots and tiles of one that is made at once."""

from __future__ import annotations

import hashlib

from hypothesis import given
from hypothesis import strategies as st

from context_engine.audit.checks.tree import Growth, peaks
from context_engine.audit.formats.merkle import EMPTY_ROOT, fold
from context_engine.audit.ledger.seals import row_mac, row_macs


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
