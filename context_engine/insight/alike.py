"""Pairs of sets that share most of their members, without comparing every set with every other.

Prefix filtering: two sets whose overlap is at least `share` of the larger one's size n have a common member among the
n - ceil(share * n) + 1 rarest members of each (Chaudhuri, Ganti, Kaushik: A primitive operator for similarity joins in
data cleaning, ICDE 2006).
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Hashable, Iterator, Sequence
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


def pairs_with(
    sets: Sequence[frozenset[T]], some: Collection[int], share: float, *, least: int = 1
) -> Iterator[tuple[int, int]]:
    """Yield those pairs of `alike_pairs` in which one of some sets is; the others are not compared with each other.

    Args:
        some: indices of `sets`.
        share, least: see `alike_pairs`.
    """
    holders: defaultdict[T, list[int]] = defaultdict(list)
    wanted = {member for index in some for member in sets[index]}
    for index, members in enumerate(sets):
        for member in members & wanted:
            holders[member].append(index)
    for index in some:
        members = sets[index]
        needed = max(ceil(share * len(members) - 1e-9), least)
        rarest = sorted(members, key=lambda member: len(holders[member]))[: max(len(members) - needed + 1, 0)]
        for other in {other for member in rarest for other in holders[member]} - {index}:
            enough = max(needed, ceil(share * len(sets[other]) - 1e-9))
            if len(members & sets[other]) >= enough and (index < other or other not in some):
                yield min(index, other), max(index, other)


def _rarest_first(item: tuple[Hashable, int]) -> tuple[int, str]:
    return item[1], str(item[0])
