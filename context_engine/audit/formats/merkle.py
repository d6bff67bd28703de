"""The Merkle tree of RFC 6962, section 2.1: hashes, inclusion proofs and consistency proofs."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final

HASH_BYTES: Final = 32
EMPTY_ROOT: Final = hashlib.sha256(b"").digest()
_PAIR: Final = 2 * HASH_BYTES
Range = tuple[int, int]


def leaf_hash(entry: bytes) -> bytes:
    """Return SHA-256(0x00 || entry)."""
    return hashlib.sha256(b"\x00" + entry).digest()


def node_hash(left: bytes, right: bytes) -> bytes:
    """Return SHA-256(0x01 || left || right)."""
    return hashlib.sha256(b"\x01" + left + right).digest()


def fold(hashes: bytes) -> bytes:
    """Return the root over n >= 0 concatenated hashes of 32 bytes.

    Pairs are hashed level by level; a last hash without a partner moves up unchanged, which gives the tree of RFC 6962.
    """
    if not hashes:
        return EMPTY_ROOT
    sha256 = hashlib.sha256
    while len(hashes) > HASH_BYTES:
        even = len(hashes) // _PAIR * _PAIR
        pairs = [sha256(b"\x01" + hashes[start : start + _PAIR]).digest() for start in range(0, even, _PAIR)]
        hashes = b"".join(pairs) + hashes[even:]
    return hashes


def root(leaves: Sequence[bytes]) -> bytes:
    """Return the root over leaf hashes."""
    return fold(b"".join(leaves))


def subtree_hash(start: int, end: int, perfect: Callable[[int, int], bytes]) -> bytes:
    """Return the hash of the subtree over the leaves [start, end).

    Args:
        start: a multiple of the smallest power of two not below the length.
        perfect: returns the hash over [start, start + 2**height), given start and height.
    """
    length = end - start
    left = _largest_power_below(length) if length > 1 else 1
    if left * 2 == length or length == 1:
        return perfect(start, length.bit_length() - 1)
    middle = start + left
    return node_hash(perfect(start, left.bit_length() - 1), subtree_hash(middle, end, perfect))


def inclusion_ranges(index: int, size: int) -> list[Range]:
    """Return the subtrees whose hashes prove the leaf at index, its sibling first.

    Raises:
        IndexError: a tree of that size has no such leaf.
    """
    if not 0 <= index < size:
        raise IndexError(f"a tree of {size} has no leaf {index}")
    start, end, ranges = 0, size, []
    while end - start > 1:
        middle = start + _largest_power_below(end - start)
        if index < middle:
            ranges.append((middle, end))
            end = middle
        else:
            ranges.append((start, middle))
            start = middle
    return ranges[::-1]


def consistency_ranges(old: int, size: int) -> list[Range]:
    """Return the subtrees whose hashes prove that a tree of `size` leaves begins with one of `old` (RFC 6962, 2.1.2).

    Raises:
        IndexError: old is not in 0..size.
    """
    if not 0 <= old <= size:
        raise IndexError(f"a tree of {size} never had {old} leaves")
    return [] if old in (0, size) else list(_consistency(old, 0, size))


def _consistency(old: int, start: int, end: int) -> Iterator[Range]:
    if old == end:
        if start:  # otherwise it is the old tree itself, whose root is known
            yield start, end
        return
    middle = start + _largest_power_below(end - start)
    if old <= middle:
        yield from _consistency(old, start, middle)
        yield middle, end
    else:
        yield from _consistency(old, middle, end)
        yield start, middle


def verify_inclusion(leaf: bytes, index: int, size: int, path: Sequence[bytes], expected: bytes) -> bool:
    """Whether a leaf hash is at index in the tree of this size and root, given the hashes of `inclusion_ranges`."""
    if not 0 <= index < size:
        return False
    ranges = inclusion_ranges(index, size)
    if len(ranges) != len(path):
        return False
    node = leaf
    for (start, _), sibling in zip(ranges, path, strict=True):
        node = node_hash(sibling, node) if start < index else node_hash(node, sibling)
    return node == expected


def verify_consistency(old: int, old_root: bytes, size: int, size_root: bytes, path: Sequence[bytes]) -> bool:
    """Whether the tree of `size` leaves begins with the tree of `old` leaves, given the hashes of
    `consistency_ranges`.
    """
    if not 0 <= old <= size:
        return False
    if old in (0, size):
        return not path and old_root == (size_root if old else EMPTY_ROOT)
    ranges = consistency_ranges(old, size)
    if len(ranges) != len(path):
        return False
    siblings = iter(zip(ranges, path, strict=True))
    # The first hash belongs to both trees. If the old tree is a subtree of the new one, that hash is the old root.
    before = after = old_root if old & (old - 1) == 0 else next(siblings)[1]
    for (start, _), sibling in siblings:
        if start < old:
            before, after = node_hash(sibling, before), node_hash(sibling, after)
        else:
            after = node_hash(after, sibling)
    return before == old_root and after == size_root


def _largest_power_below(number: int) -> int:
    return 1 << (number - 1).bit_length() - 1
