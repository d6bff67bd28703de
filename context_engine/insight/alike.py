"""Pairs of sets that share most of their members, without comparing every set with every other.

Prefix filtering: two sets whose overlap is at least `share` of the larger one's size n have a common member among the
n - ceil(share * n) + 1 rarest members of each (Chaudhuri, Ganti, Kaushik: A primitive operator for similarity joins in
data cleaning, ICDE 2006).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterator, Sequence
from math import ceil
from typing import TypeVar

T = TypeVar("T", bound=Hashable)


def alike_pairs(sets: Sequence[frozenset[T]], share: float, *, least: int = 1) -> Iterator[tuple[int, int]]:
    """Yield the index pairs (i, j), i < j, of the sets with overlap >= share * size of the larger set; each pair once.

    Args:
        sets: of words, numbers or others.
        share: (0, 1].
        least: smallest overlap; smaller sets are in no pair.
    """
    frequency = Counter(member for members in sets for member in members)
    order = {member: place for place, (member, _) in enumerate(sorted(frequency.items(), key=_rarest_first))}
    by_size = sorted((index for index, members in enumerate(sets) if len(members) >= least), key=lambda i: len(sets[i]))
    holders: defaultdict[int, list[int]] = defaultdict(list)
    for index in by_size:
        members = sets[index]
        size = len(members)
        needed = max(ceil(share * size - 1e-9), least)
        prefix = sorted(order[member] for member in members)[: size - needed + 1]
        candidates = {other for member in prefix for other in holders[member] if len(sets[other]) >= needed}
        for other in candidates:
            if len(members & sets[other]) >= needed:
                yield min(index, other), max(index, other)
        for member in prefix:
            holders[member].append(index)


def _rarest_first(item: tuple[Hashable, int]) -> tuple[int, str]:
    return item[1], str(item[0])
