"""The control chart for a share: what it adds up, when it alarms, and how rarely without a reason."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from math import inf, log, sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import utc_text
from context_engine.insight.quality import (
    SHIFTS,
    USUAL,
    ChartRule,
    Count,
    QualityChart,
    QualityOutcome,
    charted,
    mean_delay,
    upper_limit,
)

MONDAY = datetime(2026, 1, 5, tzinfo=UTC)


def outcomes(bad: list[bool], a_day: int = 80) -> Iterator[QualityOutcome]:
    for number, each in enumerate(bad):
        yield QualityOutcome(utc_text(MONDAY + timedelta(days=number // a_day)), f"s{number}", each)


def drawn(seed: int, size: int, share: Callable[[int], float]) -> list[bool]:
    rng = random.Random(seed)
    return [rng.random() < share(number) for number in range(size)]


def test_the_limit_of_a_share_is_that_of_wilson() -> None:
    z2 = 1.2816**2 / 200
    assert upper_limit(0.0, 200) == pytest.approx(z2 / (1 + z2))
    assert upper_limit(0.05, 200) == pytest.approx((0.05 + z2 / 2 + sqrt(z2) * sqrt(0.05 * 0.95 + z2 / 4)) / (1 + z2))
    assert upper_limit(1.0, 200) == pytest.approx(1.0)


def test_the_height_allows_each_of_the_charts_its_share_of_false_alarms() -> None:
    assert ChartRule(run_length=1000).height == pytest.approx(log(3 * 1000))
    assert len(SHIFTS) == 3


def test_the_stated_delay_is_that_of_the_best_chart() -> None:
    rises = {ratio: 0.2 * log(ratio) - log(1 - 0.05 + ratio * 0.05) for ratio in SHIFTS}
    assert mean_delay(0.05, 0.2) == pytest.approx(min((USUAL.height + log(r)) / rise for r, rise in rises.items()))
    assert mean_delay(0.05, 0.04) == inf


def test_bad_outcomes_alone_alarm_after_as_many_as_the_height_takes() -> None:
    rule = ChartRule(run_length=1000, least_past=200)
    chart = charted(outcomes([False] * 200, a_day=10_000), rule)
    assumed = upper_limit(0.0, 200)
    step = log(5.0) - log(1 - assumed + 5.0 * assumed)
    needed = int(rule.height / step) + 1
    told = [chart.add(QualityOutcome("2026-01-05T12:00:00Z", f"b{number}", True)) for number in range(needed)]
    assert told[:-1] == [None] * (needed - 1)
    excursion = told[-1]
    assert excursion is not None
    assert (excursion.first_id, excursion.last_id) == ("b0", f"b{needed - 1}")
    assert (excursion.outcomes, excursion.past) == (Count(needed, needed), Count(0, 200))
    assert chart.alarmed


def test_nothing_alarms_before_there_is_enough_past() -> None:
    chart = charted(outcomes([False] * 100 + [True] * 99))
    assert not chart.compares
    assert not chart.excursions


def test_an_excursion_alarms_once_and_ends_when_the_share_is_back() -> None:
    quiet, raised = drawn(1, 1500, lambda _: 0.03), drawn(2, 150, lambda _: 0.6)
    chart = charted(outcomes([*quiet, *raised, *drawn(3, 800, lambda _: 0.03)]))
    (excursion,) = chart.excursions
    assert 1500 <= int(excursion.first_id[1:]) <= 1510
    assert excursion.ended is not None
    assert not chart.alarmed
    assert chart.past.share < 0.05


def test_a_second_excursion_alarms_again() -> None:
    quiet = drawn(1, 1500, lambda _: 0.03)
    chart = charted(outcomes([*quiet, *[True] * 60, *quiet, *[True] * 60]))
    assert [excursion.ended is None for excursion in chart.excursions] == [False, True]


def test_an_excursion_as_long_as_the_past_is_the_past_from_then_on() -> None:
    chart = charted(outcomes([*drawn(1, 600, lambda _: 0.02), *drawn(2, 2500, lambda _: 0.3)]))
    assert [excursion.ended is not None for excursion in chart.excursions] == [True]
    assert chart.past.share == pytest.approx(0.3, abs=0.06)


def test_a_day_of_the_week_that_is_always_worse_is_no_alarm() -> None:
    def share(number: int) -> float:
        return 0.15 if (number // 80) % 7 == 0 else 0.02

    assert not charted(outcomes(drawn(4, 6000, share))).excursions


def test_a_fallen_share_is_no_alarm() -> None:
    assert not charted(outcomes(drawn(5, 4000, lambda number: 0.3 if number < 2000 else 0.02))).excursions


@given(st.lists(st.booleans(), max_size=400), st.integers(1, 90))
def test_outcomes_one_by_one_or_at_once_give_the_same_chart(bad: list[bool], a_day: int) -> None:
    rule = ChartRule(run_length=100, least_past=20)
    stepwise, alarms = QualityChart(rule), 0
    for outcome in outcomes(bad, a_day):
        alarms += stepwise.add(outcome) is not None
    whole = charted(outcomes(bad, a_day), rule)
    assert (stepwise.excursions, stepwise.days, stepwise.past) == (whole.excursions, whole.days, whole.past)
    assert alarms == len(whole.excursions)
    assert sum(count.total for count in whole.days.values()) == len(bad)


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.005, 0.05, 0.3])
def test_false_alarms_are_rarer_than_stated(share: float) -> None:
    rule, streams, size = ChartRule(run_length=1000), 20, 3000
    alarms = sum(len(charted(outcomes(drawn(seed, size, lambda _: share)), rule).excursions) for seed in range(streams))
    assert alarms <= streams * size / rule.run_length


@pytest.mark.slow
def test_a_drift_is_noticed_on_average_within_what_is_stated() -> None:
    place, delays = 1500, []
    for seed in range(20):
        chart = charted(outcomes(drawn(seed, 2500, lambda number: 0.05 if number < place else 0.2), a_day=1))
        alarmed = [datetime.fromisoformat(excursion.alarmed) - MONDAY for excursion in chart.excursions]
        delays.append(min(span.days - place for span in alarmed if span.days >= place))
    assert sum(delays) / len(delays) <= mean_delay(upper_limit(0.05, place), 0.2)
