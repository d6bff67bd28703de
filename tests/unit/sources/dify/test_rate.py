"""The limits of a process: parallel calls, calls a minute."""

import threading

import pytest

from context_engine.errors import SourceBusy, SourceRateLimited
from context_engine.sources.dify.rate import Gate, RateBudget, shared_budget, shared_gate


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
    assert shared_gate("https://a") is not shared_gate("https://b")


def test_a_gate_lets_so_many_in_and_a_slot_is_given_back_once():
    gate = Gate()
    first, second = gate.enter(2, 0.0), gate.enter(2, 0.0)
    with pytest.raises(SourceBusy, match="all 2 connections"):
        gate.enter(2, 0.0)
    first.release()
    first.release()
    third = gate.enter(2, 0.0)
    with pytest.raises(SourceBusy):
        gate.enter(2, 0.0)
    second.release()
    third.release()


def test_a_waiting_caller_gets_the_place_that_becomes_free():
    gate = Gate()
    slot = gate.enter(1, 0.0)
    threading.Timer(0.05, slot.release).start()
    second = gate.enter(1, 30.0)
    assert second is not slot
    second.release()


def test_a_place_is_not_lost_on_a_caller_who_may_not_take_it():
    gate, waiting, got = Gate(), threading.Semaphore(0), []

    class Counted(threading.Condition):
        """Tells of each wait, with the lock held: who is told of it sees the waiter wait."""

        def wait(self, timeout=None):
            waiting.release()
            return super().wait(timeout)

    gate._changed = Counted()
    slots = [gate.enter(2, 0.0), gate.enter(2, 0.0)]
    threads = [threading.Thread(target=lambda most=most: got.append((most, gate.enter(most, 30.0)))) for most in (1, 2)]
    for thread in threads:
        thread.start()
        assert waiting.acquire(timeout=30)
    slots[0].release()
    threads[1].join(20)
    assert [most for most, _ in got] == [2]  # at once, though the one who wants to be alone waits longer
    slots[1].release()
    got[0][1].release()
    threads[0].join(20)
    assert [most for most, _ in got] == [2, 1]
