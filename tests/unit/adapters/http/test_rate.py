"""The calls a minute with a key, counted for a process, and whom a refusal concerns."""

from context_engine.adapters.http.rate import RateBudget, shared_budget


def test_a_budget_is_a_window_of_60_seconds():
    budget = RateBudget()
    for now in (0.0, 1.0, 2.0):
        assert budget.take(3, now, now) == 0.0
    assert budget.free(3, 2.0) == 0
    assert budget.take(3, 10.0, 10.0) == 50.0  # the call at 0 leaves the window at 60
    assert budget.take(3, 60.0, 60.0) == 0.0
    assert budget.free(3, 60.5) == 0
    assert budget.free(3, 61.0) == 1


def test_calls_that_were_not_made_do_not_count():
    budget = RateBudget()
    assert budget.take(1, 0.0, 0.0) == 0.0
    assert [budget.take(1, now, now) for now in (1.0, 30.0, 59.5)] == [59.0, 30.0, 0.5]
    assert budget.take(1, 60.0, 60.0) == 0.0


def test_no_limit_is_no_limit():
    budget = RateBudget()
    for _ in range(5000):
        assert budget.take(None, 0.0, 0.0) == 0.0
    assert budget.free(None, 0.0) is None


def test_after_a_refusal_there_is_silence_for_a_window():
    budget = RateBudget()
    budget.refused(100.0)
    assert budget.free(None, 101.0) == 0
    assert budget.take(None, 130.0, 130.0) == 30.0
    assert budget.take(None, 160.0, 160.0) == 0.0


def test_the_search_that_was_refused_may_finish_its_calls():
    budget = RateBudget()
    budget.refused(100.0)
    assert budget.take(None, 100.1, 99.0) == 0.0
    assert budget.take(None, 100.2, 100.1) == 59.8


def test_a_budget_belongs_to_a_server_and_a_key():
    assert shared_budget("https://a", "k") is shared_budget("https://a", "k")
    assert shared_budget("https://a", "k") is not shared_budget("https://a", "other")
