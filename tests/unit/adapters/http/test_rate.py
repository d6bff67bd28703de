"""The limits of a process: calls a minute with a key, and whom a refusal concerns."""

import pytest

from context_engine.adapters.http.rate import RateBudget, shared_budget, shared_queue
from context_engine.errors import SourceRateLimited


def test_a_budget_is_a_window_of_60_seconds():
    budget = RateBudget()
    for now in (0.0, 1.0, 2.0):
        budget.take(3, now, now)
    assert budget.free(3, 2.0) == 0
    with pytest.raises(SourceRateLimited) as raised:
        budget.take(3, 10.0, 10.0)
    assert raised.value.retry_after_s == 50.0  # the call at 0 leaves the window at 60
    budget.take(3, 60.0, 60.0)
    assert budget.free(3, 60.5) == 0
    assert budget.free(3, 61.0) == 1


def test_calls_that_were_not_made_do_not_count():
    budget = RateBudget()
    budget.take(1, 0.0, 0.0)
    for now in (1.0, 30.0, 59.9):
        with pytest.raises(SourceRateLimited):
            budget.take(1, now, now)
    budget.take(1, 60.0, 60.0)


def test_no_limit_is_no_limit():
    budget = RateBudget()
    for _ in range(5000):
        budget.take(None, 0.0, 0.0)
    assert budget.free(None, 0.0) is None


def test_after_a_refusal_there_is_silence_for_a_window():
    budget = RateBudget()
    budget.refused(100.0)
    assert budget.free(None, 101.0) == 0
    with pytest.raises(SourceRateLimited) as raised:
        budget.take(None, 130.0, 130.0)
    assert raised.value.retry_after_s == 30.0
    budget.take(None, 160.0, 160.0)


def test_the_search_that_was_refused_may_finish_its_calls():
    budget = RateBudget()
    budget.refused(100.0)
    budget.take(None, 100.1, 99.0)
    with pytest.raises(SourceRateLimited):
        budget.take(None, 100.2, 100.1)


def test_a_budget_belongs_to_a_server_and_a_key():
    assert shared_budget("https://a", "k") is shared_budget("https://a", "k")
    assert shared_budget("https://a", "k") is not shared_budget("https://a", "other")
    assert shared_queue("https://a") is not shared_queue("https://b")
