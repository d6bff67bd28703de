"""Intervals: the same each time, around the mean, narrow where values agree."""

import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.errors import MissingExtra
from context_engine.evaluation.metrics import bootstrap, paired_bootstrap, percentile

VALUES = [0.0, 0.25, 0.5, 1.0] * 10


def test_the_bootstrap_is_the_same_each_time():
    assert bootstrap(VALUES) == bootstrap(list(VALUES))
    assert bootstrap(VALUES, seed=1) != bootstrap(VALUES, seed=2)


def test_the_interval_is_that_of_theory_for_many_values():
    """Standard error of a mean of 400 values of variance 0.25: 0.5 / 20 = 0.025; 1.96 of it on each side."""
    mean, low, high = bootstrap([0.0, 1.0] * 200)
    assert mean == 0.5
    assert (0.5 - low, high - 0.5) == pytest.approx((1.96 * 0.025, 1.96 * 0.025), abs=0.005)


@given(st.lists(st.floats(0, 1), min_size=1, max_size=30))
def test_the_interval_lies_within_the_values(values):
    mean, low, high = bootstrap(values, samples=50)
    assert min(values) - 1e-9 <= low <= high <= max(values) + 1e-9
    assert mean == pytest.approx(sum(values) / len(values))


def test_a_paired_difference_counts_wins_losses_and_ties():
    found = paired_bootstrap([1.0, 0.5, 0.2, 0.7], [0.0, 0.5, 0.4, 0.7])
    assert found.mean == pytest.approx((1.0 + 0.0 - 0.2 + 0.0) / 4)
    assert (found.wins, found.losses, found.ties) == (1, 1, 2)
    assert not found.beyond_noise


def test_a_difference_on_every_question_is_beyond_noise():
    better = paired_bootstrap([0.9, 0.8, 0.7, 0.6, 0.5, 0.4], [0.8, 0.7, 0.6, 0.5, 0.4, 0.3])
    assert better.beyond_noise
    assert better.p == 0.0
    assert (better.low, better.high) == pytest.approx((0.1, 0.1))
    worse = paired_bootstrap([0.5] * 6, [0.6, 0.7, 0.8, 0.9, 0.6, 0.7])
    assert worse.beyond_noise
    assert worse.high < 0


def test_no_difference_at_all():
    found = paired_bootstrap([0.5] * 9, [0.5] * 9)
    assert (found.mean, found.low, found.high, found.p) == (0.0, 0.0, 0.0, 1.0)


def test_pairing_removes_what_questions_have_in_common():
    """Questions differ by far more than the set-ups do: unpaired the intervals overlap, paired the gain is plain."""
    theirs = [number / 50 for number in range(45)]
    ours = [value + 0.02 for value in theirs]
    assert bootstrap(ours).low < bootstrap(theirs).high
    assert paired_bootstrap(ours, theirs).beyond_noise


def test_nothing_to_average():
    assert bootstrap([]) == (0.0, 0.0, 0.0)
    assert paired_bootstrap([], [])[:4] == (0.0, 0.0, 0.0, 1.0)


@pytest.mark.parametrize(("share", "value"), [(0.5, 3.0), (0.95, 5.0), (0.2, 1.0), (0.21, 2.0), (1.0, 5.0), (0.0, 1.0)])
def test_percentile_is_the_nearest_rank(share, value):
    assert percentile([5.0, 1.0, 2.0, 4.0, 3.0], share) == value
    assert percentile([], share) == 0.0


def test_without_the_extra_the_error_names_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "numpy", None)
    with pytest.raises(MissingExtra, match=r"context-engine\[eval\]"):
        bootstrap([1.0])


@pytest.mark.parametrize(("count", "told"), [(2, False), (5, False), (6, True)])
def test_a_handful_of_questions_says_nothing(count, told):
    """All go one way, so that every resample does; by chance five do so in 2 of 32 cases, six in 2 of 64."""
    alone = paired_bootstrap([0.5] * count, [0.2] * count)
    assert alone.low > 0.0
    assert alone.beyond_noise is told
    worse = paired_bootstrap([0.2] * count, [0.5] * count)
    assert worse.high < 0.0
    assert worse.beyond_noise is told
