"""The order of the answer, and what the authority tier changed in it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from context_engine.core.models import Key, Swap

MAX_SWAPS: Final = 200


class Contenders(NamedTuple):
    """What decides the places, column by column; rows stand in the order of their identity."""

    keys: Sequence[Key]
    tiers: Sequence[int]
    relevance: Sequence[float]
    finals: Sequence[float]


def order(contenders: Contenders) -> list[int]:
    """Return the rows best first: by final score, then relevance, then tier, then identity."""
    return _falling(contenders.finals, _by_relevance(contenders))


def _by_relevance(contenders: Contenders) -> list[int]:
    rows = sorted(range(len(contenders.keys)), key=contenders.tiers.__getitem__)
    return _falling(contenders.relevance, rows)


def _falling(values: Sequence[float], rows: list[int]) -> list[int]:
    """Sort rows by a column, highest first; equal ones keep their order."""
    return sorted(rows, key=values.__getitem__, reverse=True)


def swaps(contenders: Contenders, ranked: Sequence[int], returned: Sequence[int]) -> tuple[list[Swap], int]:
    """Return the pairs with a returned chunk whose order the boost turned round, and their number.

    The counterfactual order is the same rule with the boost at 0. A pair is a swap where the winner stands above the
    loser now and below it there; its gap is the relevance the boost made up for, at most
    (boost difference) * authority_weight / relevance_weight.

    Args:
        contenders: all of them.
        ranked: their rows in their order.
        returned: the places in it, from 0 and ascending, of those that are returned.

    Returns:
        At most 200 swaps, those of the best-ranked winners first, and the true number.
    """
    without = _by_relevance(contenders)
    places, places_without = _places(ranked), _places(without)
    found: list[Swap] = []
    count = 0
    for place in returned:
        winner = ranked[place]
        for loser in without[: places_without[winner]]:
            if places[loser] > place:
                count += 1
                if len(found) < MAX_SWAPS:
                    found.append(_swap(contenders, winner, loser, places, places_without))
    return found, count


def _places(rows: Sequence[int]) -> list[int]:
    places = [0] * len(rows)
    for place, row in enumerate(rows):
        places[row] = place
    return places


def _swap(contenders: Contenders, winner: int, loser: int, places: Sequence[int], without: Sequence[int]) -> Swap:
    keys, tiers, relevance, _ = contenders
    return Swap(
        keys[winner],
        keys[loser],
        tiers[winner],
        tiers[loser],
        (places[winner] + 1, places[loser] + 1),
        (without[winner] + 1, without[loser] + 1),
        relevance[loser] - relevance[winner],
    )
