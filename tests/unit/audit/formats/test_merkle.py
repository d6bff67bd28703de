"""The tree of RFC 6962: the published sample of eight leaves, and proofs by hand."""

from __future__ import annotations

import hashlib

import pytest

from context_engine.audit.formats.merkle import (
    EMPTY_ROOT,
    consistency_ranges,
    inclusion_ranges,
    leaf_hash,
    node_hash,
    root,
    verify_consistency,
    verify_inclusion,
)

ENTRIES = [bytes.fromhex(text) for text in ("", "00", "10", "2021", "3031", "40414243", "5051525354555657")]
ENTRIES.append(bytes(range(0x60, 0x70)))
LEAVES = [leaf_hash(entry) for entry in ENTRIES]
ROOTS = (
    "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855",
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
)


@pytest.mark.parametrize("size", range(9))
def test_the_roots_of_the_published_sample(size: int) -> None:
    assert root(LEAVES[:size]).hex() == ROOTS[size]


def test_an_empty_tree_has_the_hash_of_nothing() -> None:
    assert root([]) == EMPTY_ROOT == hashlib.sha256(b"").digest()


def test_a_leaf_and_a_node_are_hashed_behind_different_bytes() -> None:
    assert leaf_hash(b"one") == hashlib.sha256(b"\x00one").digest()
    assert node_hash(b"l" * 32, b"r" * 32) == hashlib.sha256(b"\x01" + b"l" * 32 + b"r" * 32).digest()


def test_the_proofs_of_the_tree_of_seven_that_rfc_6962_draws() -> None:
    # 2.1.3: d0 by [b, h, l], d3 by [c, g, l], d4 by [f, j, k], d6 by [i, k]
    assert inclusion_ranges(0, 7) == [(1, 2), (2, 4), (4, 7)]
    assert inclusion_ranges(3, 7) == [(2, 3), (0, 2), (4, 7)]
    assert inclusion_ranges(4, 7) == [(5, 6), (6, 7), (0, 4)]
    assert inclusion_ranges(6, 7) == [(4, 6), (0, 4)]
    # from 3 leaves by [c, d, g, l], from 4 by [l], from 6 by [i, j, k]
    assert consistency_ranges(3, 7) == [(2, 3), (3, 4), (0, 2), (4, 7)]
    assert consistency_ranges(4, 7) == [(4, 7)]
    assert consistency_ranges(6, 7) == [(4, 6), (6, 7), (0, 4)]


def test_a_leaf_is_proved_at_its_own_index_alone() -> None:
    path = [root(LEAVES[start:end]) for start, end in inclusion_ranges(3, 7)]
    proved = [index for index in range(-1, 9) if verify_inclusion(LEAVES[3], index, 7, path, root(LEAVES[:7]))]
    assert proved == [3]


def test_a_path_too_short_or_too_long_proves_nothing() -> None:
    path = [root(LEAVES[start:end]) for start, end in inclusion_ranges(3, 7)]
    assert not verify_inclusion(LEAVES[3], 3, 7, path[:-1], root(LEAVES[:7]))
    assert not verify_inclusion(LEAVES[3], 3, 7, [*path, path[0]], root(LEAVES[:7]))


def test_a_tree_of_one_is_proved_by_nothing() -> None:
    assert verify_inclusion(LEAVES[0], 0, 1, [], LEAVES[0])
    assert not verify_inclusion(LEAVES[0], 0, 1, [], LEAVES[1])


def test_every_tree_begins_with_the_empty_one_and_with_itself() -> None:
    seven = root(LEAVES[:7])
    assert verify_consistency(0, EMPTY_ROOT, 7, seven, [])
    assert verify_consistency(7, seven, 7, seven, [])
    assert verify_consistency(0, EMPTY_ROOT, 0, EMPTY_ROOT, [])


@pytest.mark.parametrize(
    ("old", "old_root", "size", "size_root", "path"),
    [
        (0, LEAVES[0], 7, root(LEAVES[:7]), []),
        (0, EMPTY_ROOT, 7, root(LEAVES[:7]), [LEAVES[0]]),
        (7, root(LEAVES[:7]), 7, root(LEAVES[1:]), []),
        (7, root(LEAVES[:7]), 4, root(LEAVES[:4]), []),
        (-1, EMPTY_ROOT, 4, root(LEAVES[:4]), []),
        (4, root(LEAVES[:4]), 7, root(LEAVES[:7]), []),
        (4, root(LEAVES[1:5]), 7, root(LEAVES[:7]), [root(LEAVES[4:7])]),
    ],
)
def test_what_is_not_a_beginning_is_refused(
    old: int, old_root: bytes, size: int, size_root: bytes, path: list[bytes]
) -> None:
    assert not verify_consistency(old, old_root, size, size_root, path)


@pytest.mark.parametrize(("index", "size"), [(0, 0), (-1, 3), (3, 3)])
def test_there_is_no_proof_of_a_leaf_that_is_not_there(index: int, size: int) -> None:
    with pytest.raises(IndexError):
        inclusion_ranges(index, size)


@pytest.mark.parametrize(("old", "size"), [(4, 3), (-1, 3)])
def test_there_is_no_proof_of_a_size_that_was_never_had(old: int, size: int) -> None:
    with pytest.raises(IndexError):
        consistency_ranges(old, size)
