"""Laws of the Merkle log: every proof verifies, nothing else does, and tiles are the tree whatever they grew in."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from context_engine.audit.formats.merkle import leaf_hash, node_hash, root, verify_consistency, verify_inclusion
from context_engine.audit.formats.tiles import TileTree, append_leaves

LEAVES = [leaf_hash(str(number).encode()) for number in range(70_000)]
TILES = append_leaves(lambda *_: b"", 0, LEAVES)


def tree(size: int) -> TileTree:
    return TileTree(lambda level, index, width: TILES[level, index][: width * 32], size)


def by_definition(leaves: list[bytes]) -> bytes:
    """Return the root as RFC 6962, 2.1, defines it."""
    if len(leaves) < 2:
        return leaves[0] if leaves else hashlib.sha256(b"").digest()
    half = 1
    while half * 2 < len(leaves):
        half *= 2
    return node_hash(by_definition(leaves[:half]), by_definition(leaves[half:]))


@pytest.mark.parametrize("size", range(71))
def test_every_leaf_and_every_beginning_of_a_small_tree_is_proved(size: int) -> None:
    grown = tree(size)
    expected = by_definition(LEAVES[:size])
    assert grown.root() == root(LEAVES[:size]) == expected
    for index in range(size):
        assert verify_inclusion(LEAVES[index], index, size, grown.inclusion_proof(index), expected)
    for old in range(size + 1):
        assert verify_consistency(old, root(LEAVES[:old]), size, expected, grown.consistency_proof(old))


@given(size=st.integers(1, 70_000), data=st.data())
def test_every_leaf_of_a_large_tree_is_proved_at_its_place_alone(size: int, data: st.DataObject) -> None:
    index, other = data.draw(st.integers(0, size - 1)), data.draw(st.integers(0, size - 1))
    grown = tree(size)
    path = grown.inclusion_proof(index)
    assert len(path) <= (size - 1).bit_length()
    assert verify_inclusion(LEAVES[index], index, size, path, grown.root())
    assert verify_inclusion(LEAVES[index], other, size, path, grown.root()) is (index == other)


@given(size=st.integers(0, 70_000), data=st.data())
@pytest.mark.slow
def test_every_beginning_of_a_large_tree_is_proved(size: int, data: st.DataObject) -> None:
    old = data.draw(st.integers(0, size))
    path, before, after = tree(size).consistency_proof(old), tree(old).root(), tree(size).root()
    assert verify_consistency(old, before, size, after, path)
    if 0 < old < size:
        forged = hashlib.sha256(before).digest()
        assert not verify_consistency(old, forged, size, after, path)
        assert not verify_consistency(old, before, size, forged, path)
        assert not verify_consistency(old, before, size, after, path[:-1])


@settings(max_examples=60)
@given(steps=st.lists(st.integers(0, 700), max_size=6))
@pytest.mark.slow
def test_tiles_are_the_same_whatever_the_steps_they_grew_in(steps: list[int]) -> None:
    tiles: dict[tuple[int, int], bytes] = {}
    size = 0
    for step in steps:
        changed = append_leaves(
            lambda level, index, width: tiles[level, index][: width * 32], size, LEAVES[size : size + step]
        )
        tiles.update(changed)
        size += step
        assert TileTree(lambda level, index, _: tiles[level, index], size).root() == root(LEAVES[:size])
    assert tiles == append_leaves(lambda *_: b"", 0, LEAVES[:size])
