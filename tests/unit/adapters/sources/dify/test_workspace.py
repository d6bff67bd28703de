"""The circuit breaker."""

import pytest

from context_engine.adapters.sources.dify.workspace import Breaker
from context_engine.errors import SourceAuthError, SourceRateLimited, SourceTimeout, SourceUnavailable


def opened():
    breaker = Breaker(most=3, pause_s=30.0)
    for now in (0.0, 1.0, 2.0):
        breaker.check(now)
        breaker.note(SourceTimeout("x"), now)
    return breaker


def test_it_opens_after_so_many_failures_in_a_row():
    with pytest.raises(SourceUnavailable) as raised:
        opened().check(12.0)
    assert raised.value.retryable
    assert raised.value.retry_after_s == 20.0  # open from 2 to 32


def test_one_may_try_after_the_pause_and_success_closes_it():
    breaker = opened()
    breaker.check(32.0)
    with pytest.raises(SourceUnavailable):
        breaker.check(32.5)
    breaker.note(None, 33.0)
    breaker.check(33.0)
    breaker.check(33.0)


def test_a_failed_try_opens_it_again():
    breaker = opened()
    breaker.check(32.0)
    breaker.note(SourceUnavailable("x"), 33.0)
    with pytest.raises(SourceUnavailable):
        breaker.check(62.0)
    breaker.check(63.0)


def test_a_success_between_failures_starts_the_count_again():
    breaker = Breaker(most=2)
    for error in (SourceTimeout("x"), None, SourceTimeout("x")):
        breaker.note(error, 0.0)
    breaker.check(0.0)


@pytest.mark.parametrize("error", [SourceAuthError("x"), SourceRateLimited("x")])
def test_what_is_not_difys_failure_does_not_count(error):
    breaker = Breaker(most=1)
    breaker.note(error, 0.0)
    breaker.check(0.0)
