"""The order of the answer and the report of what the tier changed in it."""

from itertools import permutations

import pytest

from context_engine.models import Settings
from context_engine.ranking.authority import final_score, overturnable_gap
from context_engine.ranking.select import MAX_SWAPS, Contender, order, swaps

SETTINGS = Settings()


def contender(name, tier, relevance):
    boost = SETTINGS.authority_boosts.of(tier)
    return Contender(("s", name), tier, relevance, boost, final_score(relevance, boost, SETTINGS))


def names(contenders):
    return "".join(one.key[1] for one in contenders)


@pytest.mark.parametrize(
    ("contenders", "expected"),
    [
        ([Contender(("s", "a"), 3, 0.1, 0.0, 0.2), Contender(("s", "b"), 3, 0.9, 0.0, 0.3)], "ba"),
        ([Contender(("s", "a"), 1, 0.1, 0.0, 0.3), Contender(("s", "b"), 3, 0.2, 0.0, 0.3)], "ba"),
        ([Contender(("s", "a"), 3, 0.2, 0.0, 0.3), Contender(("s", "b"), 1, 0.2, 0.0, 0.3)], "ba"),
        ([Contender(("s", "b"), 1, 0.2, 0.0, 0.3), Contender(("s", "a"), 1, 0.2, 0.0, 0.3)], "ab"),
        ([Contender(("t", "a"), 1, 0.2, 0.0, 0.3), Contender(("s", "b"), 1, 0.2, 0.0, 0.3)], "ba"),
        ([], ""),
    ],
    ids=["final", "relevance", "tier", "chunk id", "source id", "nothing"],
)
def test_each_key_of_the_order_decides_in_turn(contenders, expected):
    assert {names(order(given)) for given in permutations(contenders)} == {expected}


def test_swaps_against_every_pair_by_hand():
    """Finals: a .30 + .16 = .46, c .36 + .08 = .44, b .39 + .04 = .43, d .24 + .12 = .36."""
    given = [contender("a", 1, 0.5), contender("b", 4, 0.65), contender("c", 3, 0.6), contender("d", 2, 0.4)]
    ranked = order(given)
    assert names(ranked) == "acbd"
    found, count = swaps(ranked, range(4), SETTINGS)
    assert count == len(found) == 3
    pairs = {(swap.winner[1], swap.loser[1]): (swap.rank_with, swap.rank_without) for swap in found}
    assert pairs == {("a", "b"): ((1, 3), (3, 1)), ("a", "c"): ((1, 2), (3, 2)), ("c", "b"): ((2, 3), (2, 1))}
    assert [round(swap.gap, 10) for swap in found] == [0.15, 0.1, 0.05]


def test_only_pairs_with_a_returned_chunk_are_told():
    ranked = order([contender("a", 1, 0.5), contender("b", 4, 0.65), contender("c", 3, 0.6), contender("d", 2, 0.4)])
    assert swaps(ranked, range(1), SETTINGS)[1] == 2
    assert swaps(ranked, range(0), SETTINGS) == ([], 0)


def test_no_more_than_two_hundred_are_listed_and_all_are_counted():
    ranked = order(
        [contender(f"r{number}", 1, 0.5) for number in range(30)] + [contender(f"w{n}", 5, 0.6) for n in range(30)]
    )
    found, count = swaps(ranked, range(60), SETTINGS)
    assert (len(found), count) == (MAX_SWAPS, 900)
    assert [swap.rank_with[0] for swap in found] == sorted(swap.rank_with[0] for swap in found)


def test_without_weight_on_authority_nothing_is_swapped():
    flat = Settings(authority_weight=0.0)
    ranked = order(
        [Contender(("s", str(tier)), tier, tier / 10, 0.0, final_score(tier / 10, 0.4, flat)) for tier in range(1, 6)]
    )
    assert swaps(ranked, range(5), flat) == ([], 0)


def test_without_weight_on_relevance_the_counterfactual_is_the_order_of_relevance():
    tiers_only = Settings(relevance_weight=0.0, authority_weight=1.0)
    ranked = order(
        [
            Contender(("s", "sor"), 1, 0.1, 0.4, final_score(0.1, 0.4, tiers_only)),
            Contender(("s", "web"), 5, 0.9, 0.0, final_score(0.9, 0.0, tiers_only)),
        ]
    )
    [swap], _ = swaps(ranked, range(2), tiers_only)
    assert (swap.rank_without, swap.gap) == ((2, 1), 0.8)
    assert swap.gap <= overturnable_gap(1, 5, tiers_only)
