"""A reranker shown the best alone: which ones, and where the rest comes to stand."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.ranking.rerank import below_reranked, best_of, blended

UNIT = st.floats(0.0, 1.0)


def test_the_best_by_relevance_then_tier_then_row() -> None:
    relevance, tiers = [0.5, 0.9, 0.5, 0.1, 0.5], [3, 5, 2, 1, 2]
    assert best_of([4, 3, 2, 1, 0], relevance, tiers, None) == [0, 1, 2, 3, 4]
    assert best_of([0, 1, 2, 3, 4], relevance, tiers, 2) == [1, 2]
    assert best_of([0, 1, 2, 3, 4], relevance, tiers, 3) == [1, 2, 4]
    assert best_of([0, 3], relevance, tiers, 9) == [0, 3]


def test_the_blend() -> None:
    assert blended(0.8, 0.2, 0.25) == 0.25 * 0.8 + 0.75 * 0.2


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        ([0.8, 0.6], [0.9, 0.3], [0.6 * 0.3 / 0.6, 0.2 * 0.3 / 0.6]),  # they fall by half, as the lowest did
        ([0.8, 0.6], [0.9, 0.7], [0.6, 0.2]),  # the reranked rose: nothing else does
        ([0.8, 0.6], [0.9, 0.0], [0.0, 0.0]),
        ([0.0, 0.0], [0.5, 0.5], [0.5, 0.2]),  # never above the lowest of them
    ],
)
def test_the_rest_stays_below(before: list[float], after: list[float], expected: list[float]) -> None:
    assert below_reranked([0.6, 0.2], before, after) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.tuples(UNIT, UNIT), min_size=1, max_size=6), st.lists(UNIT, max_size=6), st.floats(0.0, 1.0))
def test_none_of_the_rest_rises_or_comes_above_the_reranked(
    reranked: list[tuple[float, float]], rest: list[float], weight: float
) -> None:
    before = [one for one, _ in reranked]
    after = [blended(one, score, weight) for one, score in reranked]
    rest = sorted((min(value, *before, 1.0) for value in rest), reverse=True)
    found = below_reranked(rest, before, after)
    assert all(value <= min(after) for value in found)
    assert all(value <= was for value, was in zip(found, rest, strict=True))
    assert found == sorted(found, reverse=True)
