"""Retries after a growing pause, or the one the server asks for, while there is time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Final, NamedTuple, TypeVar

import tenacity
from tenacity.nap import sleep as nap

from context_engine.errors import SourceError, SourceRateLimited, SourceTimeout, SourceUnavailable

OUTAGES: Final = (SourceUnavailable, SourceTimeout, SourceRateLimited)
"""Errors that may pass by themselves."""
_LONGEST_S: Final = 86_400.0
T = TypeVar("T")


class Backoff(NamedTuple):
    """Seconds between tries: `first_s`, doubled each time up to `most_s`, plus at most `first_s` at random."""

    first_s: float
    most_s: float


@dataclass(slots=True)
class RetryBudget:
    """The tries of one question, and the further tries shared by all questions of one search.

    Attributes:
        attempts: most tries of one question.
        spare: remaining tries beyond the first, shared by the search's threads; None: only `attempts` limits them.
    """

    attempts: int
    spare: int | None = None
    lock: threading.Lock = field(default_factory=threading.Lock)

    def more(self) -> bool:
        """Take one further try; False if there is none."""
        with self.lock:
            if self.spare is None:
                return True
            self.spare -= 1
            return self.spare >= 0


def retried(
    call: Callable[[], T],
    budget: RetryBudget,
    left: Callable[[], float],
    backoff: Backoff,
    sleep: Callable[[float], None] = nap,
    outages: tuple[type[SourceError], ...] = OUTAGES,
    tell: Callable[[str], None] = lambda _problem: None,
) -> T:
    """Return a call's result, repeating the call through an outage while tries and time are left.

    A server that asks for a longer pause than there is time is not called again: it would refuse.

    Args:
        left: returns the seconds until the answer is useless.
        backoff: pauses if the server asks for none, or for shorter ones.
        outages: errors after which a call is repeated, if they are retryable.
        tell: receives each error message before the wait.

    Raises:
        SourceError: the last one.
    """
    doubled = tenacity.wait_exponential(multiplier=backoff.first_s, max=backoff.most_s)
    grows = doubled + tenacity.wait_random(0, backoff.first_s)

    def pause(state: tenacity.RetryCallState) -> float:
        error = state.outcome.exception() if state.outcome else None
        requested = error.retry_after_s if isinstance(error, SourceError) else None
        return max(requested or 0.0, grows(state))

    return tenacity.Retrying(
        retry=tenacity.retry_if_exception(lambda error: isinstance(error, outages) and error.retryable),
        wait=pause,
        stop=lambda state: (
            tenacity.stop_after_attempt(budget.attempts)(state) or state.upcoming_sleep >= left() or not budget.more()
        ),
        sleep=sleep,
        before_sleep=lambda state: tell(str(state.outcome.exception() if state.outcome else "")),
        reraise=True,
    )(call)


def retry_after(headers: Mapping[str, str], now: datetime) -> float | None:
    """Return the seconds that a Retry-After header asks for, in [0, 86400]; None if it cannot be read.

    An HTTP date is compared with the answer's own Date, else with `now`, as the server's clock may differ from ours.
    """
    value = headers.get("retry-after", "").strip()
    if value.isdecimal():
        return min(float(value), _LONGEST_S)
    moment = _date(value)
    if moment is None:
        return None
    seconds = (moment - (_date(headers.get("date", "")) or now)).total_seconds()
    return min(max(seconds, 0.0), _LONGEST_S)


def _date(text: str) -> datetime | None:
    try:
        moment = parsedate_to_datetime(text)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)
