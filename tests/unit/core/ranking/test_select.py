"""The order of the answer and the report of what the tier changed in it."""

import logging
from copy import deepcopy

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import Settings
from context_engine.core.ranking import select as diversity
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.select import (
    MAX_SWAPS,
    Contenders,
    Passed,
    filter_by_similarity,
    final_score,
    order,
    overturnable_gap,
    swaps,
)
from context_engine.errors import InvalidRequest


@pytest.mark.parametrize(
    ("relevance", "tier", "expected"),
    [
        (1.0, 1, 0.6 * 1.0 + 0.4 * 0.4),
        (0.9, 2, 0.6 * 0.9 + 0.4 * 0.3),
        (0.5, 3, 0.6 * 0.5 + 0.4 * 0.2),
        (0.0, 4, 0.6 * 0.0 + 0.4 * 0.1),
        (0.0, 5, 0.0),
    ],
)
def test_final_score(relevance, tier, expected):
    settings = Settings()
    assert final_score(relevance, settings.authority_boosts.of(tier), settings) == expected


def test_no_final_score_is_above_076():
    settings = Settings()
    assert max(final_score(1.0, settings.authority_boosts.of(tier), settings) for tier in range(1, 6)) == 0.76


@pytest.mark.parametrize(
    ("higher", "lower", "expected"),
    [(1, 2, 0.1 * 0.4 / 0.6), (1, 3, 0.4 / 3), (1, 5, 0.8 / 3), (2, 3, 0.2 / 3), (4, 4, 0.0)],
)
def test_overturnable_gap(higher, lower, expected):
    """Tier 1 over tier 3: (0.4 - 0.2) * 0.4 / 0.6 = 0.133..."""
    assert overturnable_gap(higher, lower, Settings()) == pytest.approx(expected, abs=1e-12)


def test_without_weight_on_relevance_any_gap_is_overturned():
    assert overturnable_gap(1, 5, Settings(relevance_weight=0.0)) == 1.0


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


A, B, C = ("s", "a"), ("s", "b"), ("s", "c")


def choose(finals, documents, texts, **how):
    """The choice among plain texts."""
    return diversity.choose(finals, documents, [AnalysedText(text) for text in texts], **how)


def test_without_limits_the_best_are_returned():
    chosen, passed = choose([0.7, 0.6, 0.5], [A, A, A], ["x", "x", "x"], top_k=2)
    assert chosen == [0, 1]
    assert passed == {}


def test_a_place_freed_by_the_document_limit_goes_to_the_next_chunk():
    chosen, passed = choose([0.7, 0.6, 0.5, 0.4], [A, A, B, C], list("wxyz"), top_k=2, max_per_document=1)
    assert chosen == [0, 2]
    assert passed == {1: Passed("document_limit", "a", 1)}


def test_fewer_come_back_when_there_are_no_other_documents():
    chosen, passed = choose([0.7, 0.6, 0.5], [A, A, A], list("xyz"), top_k=3, max_per_document=2)
    assert chosen == [0, 1]
    assert passed == {2: Passed("document_limit", "a", 2)}


def test_chunks_without_a_document_are_never_limited():
    assert choose([0.7, 0.6], [None, None], ["x", "y"], top_k=2, max_per_document=1).chosen == [0, 1]


def test_the_same_document_id_in_two_sources_is_two_documents():
    assert choose([0.7, 0.6], [("s", "a"), ("t", "a")], ["x", "y"], top_k=2, max_per_document=1).chosen == [0, 1]


def test_marginal_relevance_by_hand():
    """Best final .60. The second place at lambda .5: text 1 shares 2 of 3 terms with text 0, text 2 none.

    value(1) = .5 * .54/.60 - .5 * 2/3 = .450 - .333 = .117; value(2) = .5 * .30/.60 - 0 = .250.
    """
    texts = ["liquidity ratio", "liquidity ratio floor", "outsourcing register"]
    chosen, passed = choose([0.60, 0.54, 0.30], [None] * 3, texts, top_k=2, mmr_lambda=0.5)
    assert chosen == [0, 2]
    assert passed == {1: Passed("too_similar", pytest.approx(2 / 3), 0.5)}
    assert choose([0.60, 0.54, 0.30], [None] * 3, texts, top_k=2, mmr_lambda=0.9).chosen == [0, 1]


def test_both_limits_together():
    texts = ["liquidity ratio", "liquidity ratio floor", "outsourcing register", "vendor exit plan"]
    chosen, passed = choose([0.6, 0.5, 0.4, 0.3], [A, B, A, C], texts, top_k=2, mmr_lambda=0.3, max_per_document=1)
    assert chosen == [0, 3]
    assert {index: why.reason for index, why in passed.items()} == {1: "too_similar", 2: "document_limit"}


@given(
    st.lists(st.tuples(st.floats(0, 0.76), st.sampled_from([A, B, None]), st.sampled_from(["x y", "y z", "q"]))),
    st.integers(1, 5),
    st.none() | st.integers(1, 3),
    st.none() | st.floats(0, 1),
)
def test_every_chunk_above_the_last_chosen_is_chosen_or_told_why_not(rows, top_k, most, mmr):
    rows.sort(key=lambda row: -row[0])
    finals, documents, texts = ([row[part] for row in rows] for part in range(3))
    chosen, passed = choose(finals, documents, texts, top_k=top_k, max_per_document=most, mmr_lambda=mmr)
    assert not {*chosen} & {*passed}
    last = max(chosen) if len(chosen) == top_k else len(rows) - 1
    assert sorted([*chosen, *passed]) == list(range(last + 1 if rows else 0))
    assert chosen == sorted(chosen) and len(chosen) <= top_k
    if most is None:
        assert len(chosen) == min(top_k, len(rows))
    if rows:
        assert chosen[0] == 0
    for document in (A, B):
        assert most is None or sum(documents[index] == document for index in chosen) <= most
    if mmr == 1.0 and most is None:
        assert chosen == list(range(min(top_k, len(rows))))


CHUNKS = [
    {"content": "a", "score": 0.85, "metadata": {"year": 2026}},
    {"content": "b", "score": 0.72},
    {"content": "c", "score": 0.5},
    {"content": "d", "score": 0.3},
    {"content": "e"},
]


def texts(chunks):
    return "".join(chunk["content"] for chunk in chunks)


def test_C1_it_keeps_what_reaches_the_threshold_and_reports():
    kept, report = filter_by_similarity(CHUNKS, 0.72, 2)
    assert texts(kept) == "ab"
    assert report == {"original_count": 5, "filtered_count": 2, "fallback_triggered": False, "scores": [0.85, 0.72]}


def test_C2_below_min_chunks_the_best_come_back_marked_and_it_is_logged(caplog):
    caplog.set_level(logging.INFO)
    kept, report = filter_by_similarity(CHUNKS, 0.8, 3)
    assert texts(kept) == "abc"
    assert [chunk.get("below_threshold", False) for chunk in kept] == [False, True, True]
    assert report == {"original_count": 5, "filtered_count": 3, "fallback_triggered": True, "scores": [0.85, 0.72, 0.5]}
    assert "threshold 0.800 left 1 chunks, 3 kept by min_chunks" in caplog.text


def test_C2_the_fallback_takes_by_score_and_keeps_the_order_given():
    shuffled = [CHUNKS[3], CHUNKS[4], CHUNKS[0], CHUNKS[2], CHUNKS[1]]
    kept, _ = filter_by_similarity(shuffled, 0.99, 3)
    assert texts(kept) == "acb"


def test_C2_a_chunk_without_a_score_comes_back_last():
    kept, report = filter_by_similarity(CHUNKS, 0.99, 5)
    assert texts(kept) == "abcde"
    assert report["scores"] == [0.85, 0.72, 0.5, 0.3, None]
    assert texts(filter_by_similarity(CHUNKS, 0.99, 4)[0]) == "abcd"


def test_C3_scores_and_metadata_are_kept_and_the_input_is_not_changed():
    before = deepcopy(CHUNKS)
    kept, _ = filter_by_similarity(CHUNKS, 0.8, 2)
    assert kept[0] == CHUNKS[0]
    kept[1]["score"] = 7
    assert before == CHUNKS


def test_C4_the_defaults_let_everything_through():
    kept, report = filter_by_similarity(CHUNKS)
    assert kept == CHUNKS
    assert (report["filtered_count"], report["fallback_triggered"]) == (5, False)


def test_min_chunks_beyond_what_there_is_is_no_fallback():
    assert filter_by_similarity(CHUNKS[:1], 0.5, 2)[1]["fallback_triggered"] is False
    assert filter_by_similarity([], 0.5, 2) == (
        [],
        {"original_count": 0, "filtered_count": 0, "fallback_triggered": False, "scores": []},
    )


@pytest.mark.parametrize("score", [None, "0.9", True, float("nan"), float("inf")])
def test_a_score_that_is_no_number_counts_as_none(score):
    kept, report = filter_by_similarity([{"content": "a", "score": score}], 0.5, 0)
    assert (kept, report["scores"]) == ([], [])


@pytest.mark.parametrize(
    ("threshold", "min_chunks"),
    [
        (float("nan"), 2),
        (float("inf"), 2),
        ("0.5", 2),
        (True, 2),
        (None, 2),
        (0.5, -1),
        (0.5, True),
        (0.5, 1.5),
        (0.5, "2"),
    ],
)
def test_arguments_that_cannot_be_used(threshold, min_chunks):
    with pytest.raises(InvalidRequest, match="must be a"):
        filter_by_similarity(CHUNKS, threshold, min_chunks)


@pytest.mark.parametrize(
    ("chunks", "problem"),
    [
        (None, "chunks must be a sequence of chunk dicts, got NoneType"),
        ("abc", "chunks must be a sequence of chunk dicts, got str"),
        ({"score": 1.0}, "chunks must be a sequence of chunk dicts, got dict"),
        ([{"score": 1.0}, 0.5], r"chunks\[1\] must be a chunk dict, got float"),
    ],
)
def test_what_is_no_list_of_chunks_is_refused(chunks, problem):
    with pytest.raises(InvalidRequest, match=problem):
        filter_by_similarity(chunks, 0.5)


def test_marginal_relevance_weighs_scores_as_shares_of_the_best():
    """Jaccard 2/6 = .333. Of the best .5: .5 * .45 / .5 - .5 * .333 = .283 beats .5 * .2 / .5 = .2 of the other; the
    plain scores would turn it round: .5 * .45 - .5 * .333 = .058 against .5 * .2 = .1."""
    texts = ["apple banana cherry damson", "apple banana lemon mango", "walnut"]
    assert choose([0.50, 0.45, 0.20], [None] * 3, texts, top_k=2, mmr_lambda=0.5).chosen == [0, 1]


def test_a_last_score_of_zero_leaves_the_shares_of_the_best():
    """As above: .5 * .45 / .5 - .5 * .333 = .283 beats .5 * .2 / .5 = .2, whatever the last one has."""
    texts = ["apple banana cherry damson", "apple banana lemon mango", "walnut", "pear"]
    assert choose([0.50, 0.45, 0.20, 0.0], [None] * 4, texts, top_k=2, mmr_lambda=0.5).chosen == [0, 1]


def test_where_relevance_counts_nothing_the_least_similar_is_next_and_the_limit_is_zero():
    chosen, passed = choose([0.5, 0.4, 0.3], [None] * 3, ["apple pie", "apple", "walnut"], top_k=2, mmr_lambda=0.0)
    assert chosen == [0, 2]
    assert passed == {1: Passed("too_similar", 1 / 2, 0.0)}


def test_texts_without_terms_are_alike_to_nothing():
    """Similarity 0 / 0 counts as 0: value(1) = .5 * .4 / .5 = .4 is above value(2) = .5 * .3 / .5 = .3."""
    chosen, passed = choose([0.5, 0.4, 0.3], [None] * 3, ["the", "of the", "walnut"], top_k=2, mmr_lambda=0.5)
    assert (chosen, passed) == ([0, 1], {})


def test_scores_of_zero_are_equally_worth():
    """Nothing is divided by 0: the least similar is next."""
    assert choose([0.0, 0.0, 0.0], [None] * 3, ["apple", "apple", "walnut"], top_k=2, mmr_lambda=0.5).chosen == [0, 2]
