"""A token bucket for each principal."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.apps.server.limits import Allowance, RateLimits, RateSettings, SharedRates
from context_engine.core.models import Settings


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_the_arithmetic_of_a_bucket() -> None:
    clock = Clock()
    limits, settings = RateLimits(clock), Settings(server_rate_per_minute=30, server_rate_burst=3)
    taken = [limits.take("a", settings) for _ in range(4)]
    # 30 a minute are 0.5 a second: from 0 tokens one takes 2 s, three take 6 s.
    assert [(one.granted, one.remaining, one.wait_s, one.full_s) for one in taken if one] == [
        (True, 2, 0, 2),
        (True, 1, 0, 4),
        (True, 0, 0, 6),
        (False, 0, 2, 6),
    ]
    clock.now += 1.5  # 0.75 tokens: the last quarter takes 0.5 s
    late = limits.take("a", settings)
    assert late is not None and (late.granted, late.wait_s) == (False, 1)
    clock.now += 0.5
    again = limits.take("a", settings)
    assert again is not None and again.granted
    other = limits.take("b", settings)
    assert other is not None and other.remaining == 2
    assert dict(other.headers()) == {
        b"ratelimit-policy": b'"principal";q=30;w=60',
        b"ratelimit": b'"principal";r=2;t=2',
    }


def test_nought_is_no_limit() -> None:
    limits, settings = RateLimits(Clock()), Settings(server_rate_per_minute=0)
    assert limits.take("a", settings) is None
    assert limits.least(settings) is None


def test_the_least_budget_is_that_of_the_caller_with_the_fewest_requests_left() -> None:
    clock = Clock()
    limits, settings = RateLimits(clock), Settings(server_rate_per_minute=30, server_rate_burst=3)
    assert limits.least(settings) == 3
    for principal in ("a", "a", "b"):
        limits.take(principal, settings)
    assert limits.least(settings) == 1
    clock.now += 3.0  # 1.5 requests: a has 2.5, b has 3.5, and a bucket holds 3
    assert limits.least(settings) == 2


@given(st.lists(st.floats(0.0, 120.0), min_size=1, max_size=60), st.integers(1, 600), st.integers(1, 20))
def test_nobody_gets_more_than_burst_and_rate(gaps: list[float], per_minute: int, burst: int) -> None:
    clock = Clock()
    limits, settings = RateLimits(clock), Settings(server_rate_per_minute=per_minute, server_rate_burst=burst)
    granted = 0
    for gap in gaps:
        clock.now += gap
        taken = limits.take("a", settings)
        assert taken is not None and 0 <= taken.remaining < burst
        granted += taken.granted
        assert taken.granted is (taken.wait_s == 0)
    assert granted <= burst + sum(gaps) * per_minute / 60 + 1e-6


def test_processes_that_share_a_count_take_from_one_bucket() -> None:
    counted, settings = RateLimits(Clock()), Settings(server_rate_per_minute=30, server_rate_burst=3)
    one, other = SharedRates(counted), SharedRates(counted)
    taken = [rates.take("a", settings) for rates in (one, other, one, other)]
    assert [(each.granted, each.remaining) for each in taken if each] == [(True, 2), (True, 1), (True, 0), (False, 0)]
    assert one.least(settings) == other.least(settings) == 0
    assert one.take("a", Settings(server_rate_per_minute=0)) is None


def test_without_the_process_that_counts_requests_are_answered() -> None:
    class Gone(RateLimits):
        def take(self, principal: str, settings: RateSettings) -> Allowance | None:
            raise ConnectionRefusedError

        def least(self, settings: RateSettings) -> int | None:
            raise EOFError

    rates, settings = SharedRates(Gone(Clock())), Settings(server_rate_per_minute=30)
    assert rates.take("a", settings) is None
    assert rates.least(settings) is None
