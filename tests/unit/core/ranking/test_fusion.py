"""Reciprocal rank fusion and the weighted sum, against a worked example."""

import pytest

from context_engine.core.ranking.fusion import DEFAULT_K, reciprocal_rank_fusion, weighted_fusion


def test_E4_worked_example():
    """Vector ranks A, B, C; keyword ranks A, C, D; k = 60."""
    scores = reciprocal_rank_fusion([["A", "B", "C"], ["A", "C", "D"]], k=60)
    assert scores["A"] == 1 / (60 + 1) + 1 / (60 + 1)
    assert scores["C"] == 1 / (60 + 3) + 1 / (60 + 2)
    assert scores["B"] == 1 / (60 + 2)
    assert scores["D"] == 1 / (60 + 3)
    assert {name: round(score, 4) for name, score in scores.items()} == {
        "A": 0.0328,
        "C": 0.0320,
        "B": 0.0161,
        "D": 0.0159,
    }
    assert sorted(scores, key=scores.get, reverse=True) == ["A", "C", "B", "D"]
    assert DEFAULT_K == 60


def test_a_document_twice_in_one_ranking_counts_at_its_best_rank_and_takes_no_place():
    assert reciprocal_rank_fusion([["A", "A", "B"]]) == {"A": 1 / 61, "B": 1 / 62}


def test_the_order_of_the_rankings_does_not_matter():
    rankings = [["A", "B"], ["C"], ["B", "D", "A"]]
    assert reciprocal_rank_fusion(rankings) == pytest.approx(reciprocal_rank_fusion(rankings[::-1]))


def test_the_score_stays_within_its_range():
    rankings = [[f"d{number}" for number in range(1000)] for _ in range(4)]
    scores = reciprocal_rank_fusion(rankings)
    assert scores["d0"] == pytest.approx(4 / 61)
    assert all(0 < score <= 4 / 61 + 1e-15 for score in scores.values())


def test_k_flattens():
    assert reciprocal_rank_fusion([["A", "B"]], k=0) == {"A": 1.0, "B": 0.5}


def test_nothing_to_fuse():
    assert reciprocal_rank_fusion([]) == {}
    assert reciprocal_rank_fusion([[], []]) == {}


def test_weighted_sum_with_the_seeds_weights():
    """0.4 vector, 0.6 keyword; what a list does not hold adds nothing."""
    assert weighted_fusion([{"A": 0.9, "B": 0.5}, {"A": 0.2, "C": 1.0}], [0.4, 0.6]) == {
        "A": 0.4 * 0.9 + 0.6 * 0.2,
        "B": 0.4 * 0.5,
        "C": 0.6 * 1.0,
    }


def test_a_weight_for_each_list():
    with pytest.raises(ValueError, match="argument 2"):
        weighted_fusion([{}, {}], [1.0])
