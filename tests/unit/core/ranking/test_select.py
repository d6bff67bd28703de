"""The order of the answer and the report of what the tier changed in it."""

import pytest

from context_engine.core.models import Settings
from context_engine.core.ranking.authority import final_score, overturnable_gap
from context_engine.core.ranking.select import MAX_SWAPS, Contenders, order, swaps

SETTINGS = Settings()


def row(name, tier, relevance, settings=SETTINGS):
    final = final_score(relevance, settings.authority_boosts.of(tier), settings)
    return (("s", name), tier, relevance, final)


def contenders(*rows):
    return Contenders(*map(list, zip(*sorted(rows)))) if rows else Contenders([], [], [], [])


def names(given):
    return "".join(given.keys[one][1] for one in order(given))


@pytest.mark.parametrize(
    ("rows", "expected"),
    [
        ([(("s", "a"), 3, 0.1, 0.2), (("s", "b"), 3, 0.9, 0.3)], "ba"),
        ([(("s", "a"), 1, 0.1, 0.3), (("s", "b"), 3, 0.2, 0.3)], "ba"),
        ([(("s", "a"), 3, 0.2, 0.3), (("s", "b"), 1, 0.2, 0.3)], "ba"),
        ([(("s", "b"), 1, 0.2, 0.3), (("s", "a"), 1, 0.2, 0.3)], "ab"),
        ([(("t", "a"), 1, 0.2, 0.3), (("s", "b"), 1, 0.2, 0.3)], "ba"),
        ([], ""),
    ],
    ids=["final", "relevance", "tier", "chunk id", "source id", "nothing"],
)
def test_each_key_of_the_order_decides_in_turn(rows, expected):
    assert names(contenders(*rows)) == expected


ABCD = (row("a", 1, 0.5), row("b", 4, 0.65), row("c", 3, 0.6), row("d", 2, 0.4))


def test_swaps_against_every_pair_by_hand():
    """Finals: a .30 + .16 = .46, c .36 + .08 = .44, b .39 + .04 = .43, d .24 + .12 = .36."""
    given = contenders(*ABCD)
    assert names(given) == "acbd"
    found, count = swaps(given, order(given), range(4))
    assert count == len(found) == 3
    pairs = {(swap.winner[1], swap.loser[1]): (swap.rank_with, swap.rank_without) for swap in found}
    assert pairs == {("a", "b"): ((1, 3), (3, 1)), ("a", "c"): ((1, 2), (3, 2)), ("c", "b"): ((2, 3), (2, 1))}
    assert [round(swap.gap, 10) for swap in found] == [0.15, 0.1, 0.05]


def test_only_pairs_with_a_returned_chunk_are_told():
    given = contenders(*ABCD)
    assert swaps(given, order(given), range(1))[1] == 2
    assert swaps(given, order(given), [1])[1] == 1  # c above b
    assert swaps(given, order(given), []) == ([], 0)


def test_no_more_than_two_hundred_are_listed_and_all_are_counted():
    given = contenders(*(row(f"r{n}", 1, 0.5) for n in range(30)), *(row(f"w{n}", 5, 0.6) for n in range(30)))
    found, count = swaps(given, order(given), range(60))
    assert (len(found), count) == (MAX_SWAPS, 900)
    assert [swap.rank_with[0] for swap in found] == sorted(swap.rank_with[0] for swap in found)


def test_without_weight_on_authority_nothing_is_swapped():
    flat = Settings(authority_weight=0.0)
    given = contenders(*(row(str(tier), tier, tier / 10, flat) for tier in range(1, 6)))
    assert swaps(given, order(given), range(5)) == ([], 0)


def test_without_weight_on_relevance_the_counterfactual_is_the_order_of_relevance():
    tiers_only = Settings(relevance_weight=0.0, authority_weight=1.0)
    given = contenders(row("sor", 1, 0.1, tiers_only), row("web", 5, 0.9, tiers_only))
    [swap], _ = swaps(given, order(given), range(2))
    assert (swap.rank_without, swap.gap) == ((2, 1), 0.8)
    assert swap.gap <= overturnable_gap(1, 5, tiers_only)
