"""The circuit breaker: most=3 failures in a row, pause_s=30."""

import pytest

from context_engine.core.concurrency.calls import Breaker


@pytest.fixture
def opened():
    """A breaker after failures at 0, 1 and 2 seconds: open until 2 + 30 = 32."""
    breaker = Breaker(most=3, pause_s=30.0)
    for now in (0.0, 1.0, 2.0):
        assert breaker.wait_s(now) == 0.0
        breaker.note(now, failed=True)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row(opened):
    assert (opened.is_open, opened.failures) == (True, 3)
    assert opened.wait_s(2.0) == 30.0
    assert opened.wait_s(31.5) == 0.5


def test_after_the_pause_the_first_caller_tries_and_success_closes_it(opened):
    assert opened.wait_s(32.0) == 0.0
    assert opened.wait_s(32.5) == 29.5, "another one waits: 32 + 30 - 32.5"
    opened.note(33.0, failed=False)
    assert not opened.is_open
    assert opened.wait_s(33.0) == opened.wait_s(33.0) == 0.0


def test_a_failed_try_opens_it_again(opened):
    assert opened.wait_s(32.0) == 0.0
    opened.note(33.0, failed=True)
    assert opened.wait_s(62.0) == 1.0
    assert opened.wait_s(63.0) == 0.0


def test_a_success_between_failures_starts_the_count_again():
    breaker = Breaker(most=2, pause_s=30.0)
    for failed in (True, False, True):
        breaker.note(0.0, failed=failed)
    assert (breaker.failures, breaker.wait_s(0.0)) == (1, 0.0)


def test_calls_that_fail_together_count_as_one_failure():
    breaker = Breaker(most=3, pause_s=30.0)
    for ended in (5.0, 5.1, 5.2, 6.0):  # forty at once: all began before the first of them failed
        breaker.note(ended, failed=True, started=1.0)
    assert (breaker.failures, breaker.is_open) == (1, False)
    breaker.note(9.0, failed=True, started=5.5)
    breaker.note(13.0, failed=True, started=9.5)
    assert breaker.is_open, "each of these began after the failure before it"
    assert breaker.wait_s(13.0) == 30.0
