"""Two arms compared by judgements: each caller once, in pairs, and a false claim no more often than stated."""

from __future__ import annotations

import random
from math import exp, lgamma, log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.evaluation.online import OnlineComparison, compared_online, log_evidence

Row = dict[str, Any]


def vote(arm: str, by: str, up: bool, experiment: str = "deep") -> Row:
    return {"experiment": f"{experiment}/{arm}", "by": by, "grade": 2 if up else 0}


def compared(rows: list[Row], alpha: float = 0.05, most_pairs: int = 1000) -> OnlineComparison:
    return compared_online(rows, "deep", alpha=alpha, most_pairs=most_pairs)


def drawn(seed: int, callers: int, up_a: float, up_b: float, each: int = 1) -> list[Row]:
    """Callers in random order; each leans its own way, and judges several times."""
    rng, rows = random.Random(seed), []
    for number in range(2 * callers):
        arm, lean = "ab"[number % 2], rng.uniform(-0.3, 0.3)
        share = (up_a if arm == "a" else up_b) + lean
        rows += [vote(arm, f"c{number}", rng.random() < share) for _ in range(each)]
    return rows


def test_the_evidence_is_the_ratio_of_the_mixture_to_one_half() -> None:
    def log_beta(a: float, b: float) -> float:
        return lgamma(a) + lgamma(b) - lgamma(a + b)

    assert log_evidence(0, 0) == 0.0
    assert log_evidence(1, 0) == pytest.approx(log(2 * 5 / 10))
    assert log_evidence(7, 2) == pytest.approx(9 * log(2) + log_beta(12, 7) - log_beta(5, 5))


@given(st.integers(0, 60), st.integers(0, 60))
def test_the_evidence_of_the_next_pair_is_on_average_that_of_now(wins: int, losses: int) -> None:
    now = exp(log_evidence(wins, losses))
    assert 0.5 * exp(log_evidence(wins + 1, losses)) + 0.5 * exp(log_evidence(wins, losses + 1)) == pytest.approx(now)


def test_a_caller_counts_once_with_the_first_judgement() -> None:
    rows = [vote("a", "jo", False), vote("a", "jo", True), vote("b", "li", True), vote("b", "li", True)]
    result = compared(rows)
    assert (result.a.up, result.a.callers, result.a.judgements) == (0, 1, 2)
    assert (result.b.up, result.b.callers, result.b.judgements) == (1, 1, 2)
    assert (result.pairs, result.better_a, result.better_b) == (1, 0, 1)


def test_other_experiments_and_unknown_callers_do_not_count() -> None:
    rows = [vote("a", "jo", True, "other"), vote("a", "", True), {"by": "li", "grade": 2}]
    result = compared(rows)
    assert (result.a.callers, result.a.judgements, result.unknown, result.decision) == (0, 1, 1, "not_yet")
    assert (result.a.low, result.a.high, result.more) == (0.0, 1.0, None)


def test_the_interval_of_an_arm_is_that_of_wilson() -> None:
    result = compared([vote("a", f"c{number}", number < 8) for number in range(10)])
    assert (result.a.low, result.a.high) == pytest.approx((0.4902, 0.9433), abs=1e-4)


def test_it_stops_at_the_pair_that_decides_and_stays_stopped() -> None:
    rows = [vote(arm, f"{arm}{number}", arm == "b") for number in range(40) for arm in "ab"]
    needed = next(pairs for pairs in range(1, 40) if log_evidence(pairs, 0) >= log(20))
    more_for_a = [vote(arm, f"late-{arm}{number}", arm == "a") for number in range(300) for arm in "ab"]
    assert compared(rows).decision == compared([*rows, *more_for_a]).decision == "b"
    assert compared([*rows, *more_for_a]).stopped_at == needed
    assert compared(rows[: 2 * needed - 2]).decision == "not_yet"
    assert compared(rows[: 2 * needed - 2]).more == 1


def test_it_ends_without_a_difference_after_the_planned_pairs() -> None:
    rows = [vote(arm, f"{arm}{number}", number % 2 == 0) for number in range(30) for arm in "ab"]
    assert compared(rows, most_pairs=30).decision == "no_difference"
    assert compared(rows, most_pairs=31).decision == "not_yet"


@pytest.mark.slow
def test_equal_arms_are_told_apart_in_no_more_experiments_than_stated() -> None:
    results = [compared(drawn(seed, 200, 0.5, 0.5, each=2), alpha=0.05) for seed in range(1000)]
    assert sum(result.decision in ("a", "b") for result in results) <= 0.05 * 1000


@pytest.mark.slow
def test_a_planted_difference_is_mostly_found_and_never_turned_round() -> None:
    results = [compared(drawn(seed, 400, 0.5, 0.65), alpha=0.05, most_pairs=400) for seed in range(200)]
    decisions = [result.decision for result in results]
    assert decisions.count("a") == 0
    assert decisions.count("b") > 0.8 * 200
