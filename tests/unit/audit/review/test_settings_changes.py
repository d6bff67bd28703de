"""Limits between numbers: one for each set that reaches it, with as few decimals as do."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.audit.review.settings_changes import other_limits

UNIT = st.floats(0, 1)


def limits(numbers, was, low=0.0, high=1.0):
    return [(one.value, round(one.distance, 6)) for one in other_limits(numbers, was, low, high)]


def test_a_lower_limit_is_cut_down_to_two_decimals_and_a_higher_one_is_the_next_above():
    # limits up to 0.1234 are reached by all three, those above 0.1234 and up to 0.3 by two: 0.2 is one of these
    assert limits([0.1234, 0.3, 0.777], 0.2) == [(0.12, 0.0766), (0.31, 0.1), (0.78, 0.577)]


def test_more_decimals_are_given_where_two_numbers_stand_close():
    # of up to 0.1239 and above 0.1232, 0.12 is reached by both and 0.123 too
    assert limits([0.1232, 0.1239], 0.2) == [(0.12, 0.0768), (0.1239, 0.0761)]


def test_a_number_at_the_limit_reaches_it():
    assert limits([0.2], 0.5) == [(0.2, 0.3)]
    assert limits([0.5], 0.5) == [(0.51, 0.0)]


def test_no_limit_leaves_its_range():
    assert limits([0.0], 0.5) == [(0.0, 0.5)]
    assert limits([1.0, 2.0, -1.0], 0.5) == []
    assert limits([-0.5], -1.0, -1.0) == [(-0.49, 0.5)]
    assert limits([], 0.5) == []


def test_neighbouring_floats_are_told_apart():
    low = 0.3
    high = math.nextafter(low, 1.0)
    values = [one.value for one in other_limits([low, high], 0.9, 0.0, 1.0)]
    assert values == [0.3, high]


@given(st.lists(UNIT, max_size=8), UNIT)
def test_every_other_set_of_numbers_that_some_limit_has_gets_one(numbers, was):
    found = list(other_limits(numbers, was, 0.0, 1.0))
    reached = [frozenset(one for one in numbers if one >= limit.value) for limit in found]
    now = frozenset(one for one in numbers if one >= was)
    possible = {frozenset(one for one in numbers if one >= limit) for limit in {0.0, 1.0, *numbers}}
    possible |= {frozenset(one for one in numbers if one > limit) for limit in numbers if limit < 1.0}
    assert len(set(reached)) == len(reached)
    assert set(reached) == possible - {now}
    for limit in found:
        assert 0.0 <= limit.value <= 1.0
        assert 0.0 <= limit.distance <= abs(limit.value - was)


@pytest.mark.parametrize("number", [0.1, 0.15, 0.29, 0.57])
def test_a_number_of_two_decimals_stands_for_itself(number):
    assert [limit.value for limit in other_limits([number], 0.9, 0.0, 1.0)] == [number]
