"""The order of the answer, and what the authority tier changed in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from context_engine.models import Key, Settings, Swap

__all__ = ["MAX_SWAPS", "Contender", "order", "swaps"]

MAX_SWAPS: Final = 200


class Contender(NamedTuple):
    """What decides a candidate's place."""

    key: Key
    tier: int
    relevance: float
    boost: float
    final: float


def order(contenders: Sequence[Contender]) -> list[Contender]:
    """Return the contenders best first: by final score, then relevance, then tier, then identity."""
    return sorted(contenders, key=lambda one: (-one.final, -one.relevance, one.tier, one.key))


def swaps(ranked: Sequence[Contender], returned: Sequence[int], settings: Settings) -> tuple[list[Swap], int]:
    """Return the pairs with a returned chunk whose order the boost turned round, and their number.

    The counterfactual order is the same rule with the boost at 0. A pair is a swap where the winner stands above the
    loser now and below it there; its gap is the relevance the boost made up for, at most
    (boost difference) * authority_weight / relevance_weight.

    Args:
        ranked: all contenders in their order.
        returned: the indices of those that are returned, ascending.

    Returns:
        At most 200 swaps, those of the best-ranked winners first, and the true number.
    """
    without = sorted(ranked, key=lambda one: (-one.relevance, one.tier, one.key))
    rank_without = {one.key: rank for rank, one in enumerate(without, start=1)}
    rank_with = {one.key: rank for rank, one in enumerate(ranked, start=1)}
    found: list[Swap] = []
    count = 0
    for rank, winner in ((index + 1, ranked[index]) for index in returned):
        for loser in without[: rank_without[winner.key] - 1]:
            if rank_with[loser.key] > rank:
                count += 1
                if len(found) < MAX_SWAPS:
                    found.append(_swap(winner, loser, rank_with, rank_without))
    return found, count


def _swap(winner: Contender, loser: Contender, with_: dict[Key, int], without: dict[Key, int]) -> Swap:
    return Swap(
        winner=winner.key,
        loser=loser.key,
        winner_tier=winner.tier,
        loser_tier=loser.tier,
        rank_with=(with_[winner.key], with_[loser.key]),
        rank_without=(without[winner.key], without[loser.key]),
        gap=loser.relevance - winner.relevance,
    )
