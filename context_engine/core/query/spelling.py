"""Whether two words differ by one slip of the keyboard."""

from __future__ import annotations

__all__ = ["near"]


def near(first: str, second: str) -> bool:
    """Return whether one letter put in, left out, replaced, or two neighbours swapped make one word of the other.

    >>> near("prodcut", "product"), near("aproval", "approval"), near("product", "product"), near("limit", "links")
    (True, True, False, False)
    """
    if first == second or abs(len(first) - len(second)) > 1:
        return False
    shared = 0
    while shared < min(len(first), len(second)) and first[shared] == second[shared]:
        shared += 1
    left, right = first[shared:], second[shared:]
    replaced = left[1:] == right[1:]
    swapped = left[:2] == right[:2][::-1] and left[2:] == right[2:]
    return replaced or swapped or left[1:] == right or left == right[1:]
