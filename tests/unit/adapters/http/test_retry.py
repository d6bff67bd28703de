"""What is tried again, after which pause, and when no longer."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.adapters.http import Backoff, RetryBudget, retried
from context_engine.adapters.http.retry import retry_after
from context_engine.errors import (
    SourceAuthError,
    SourceBusy,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceTimeout,
    SourceUnavailable,
)

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
OUTAGE = SourceUnavailable("down", retryable=True)


class Asked:
    """Fails with each of the errors in turn, then answers; its seconds pass when it is waited."""

    def __init__(self, *errors: SourceError, seconds: float = 1000.0) -> None:
        self._errors, self._left = list(errors), seconds
        self.calls = 0
        self.slept: list[float] = []

    def __call__(self, attempts: int = 5, spare: int | None = None) -> str:
        return retried(
            self._answer, RetryBudget(attempts, spare), lambda: self._left, Backoff(0.5, 60.0), sleep=self._sleep
        )

    def _answer(self) -> str:
        self.calls += 1
        if self._errors:
            raise self._errors.pop(0)
        return "answer"

    def _sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self._left -= seconds


def test_pauses_double_with_at_most_the_first_on_top() -> None:
    asked = Asked(*[OUTAGE] * 4)
    assert asked() == "answer"
    for least, pause in zip((0.5, 1.0, 2.0, 4.0), asked.slept, strict=True):
        assert least <= pause <= least + 0.5


def test_a_pause_that_is_asked_for_is_kept_and_never_shortened() -> None:
    asked = Asked(
        SourceRateLimited("full", retryable=True, retry_after_s=7.0),
        SourceRateLimited("full", retryable=True, retry_after_s=0.0),
    )
    assert asked() == "answer"
    assert asked.slept[0] == 7.0
    assert 1.0 <= asked.slept[1] <= 1.5


def test_a_pause_longer_than_the_time_there_is_is_not_waited_out() -> None:
    asked = Asked(SourceRateLimited("full", retryable=True, retry_after_s=90.0), seconds=60.0)
    with pytest.raises(SourceRateLimited):
        asked()
    assert (asked.calls, asked.slept) == (1, [])


def test_pauses_and_calls_together_end_with_the_time_there_is() -> None:
    """Pauses of 0.5, 1, 2, 4 … s with up to 0.5 s each on top: the fourth does not fit into 6 s."""
    asked = Asked(*[OUTAGE] * 100, seconds=6.0)
    with pytest.raises(SourceUnavailable):
        asked(attempts=100)
    assert asked.calls == 4
    assert sum(asked.slept) < 6.0


def test_attempts_are_counted_for_each_question_and_further_tries_for_the_search() -> None:
    asked = Asked(*[OUTAGE] * 10)
    with pytest.raises(SourceUnavailable):
        asked(attempts=3)
    assert asked.calls == 3
    with pytest.raises(SourceUnavailable):
        asked(attempts=3, spare=1)
    assert asked.calls == 5


@pytest.mark.parametrize("kind", [SourceUnavailable, SourceTimeout, SourceRateLimited])
def test_what_may_pass_is_tried_again(kind: type[SourceError]) -> None:
    asked = Asked(kind("x", retryable=True))
    assert (asked(), asked.calls) == ("answer", 2)


@pytest.mark.parametrize(
    "error",
    [
        SourceUnavailable("x"),
        SourceAuthError("x"),
        SourceForbidden("x"),
        SourceNotFound("x"),
        SourceProtocolError("x"),
        SourceBusy("x", retryable=True),
    ],
    ids=lambda error: type(error).__name__,
)
def test_what_does_not_pass_by_itself_is_not(error: SourceError) -> None:
    asked = Asked(error)
    with pytest.raises(type(error)):
        asked()
    assert asked.calls == 1


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"retry-after": "7"}, 7.0),
        ({"retry-after": " 0 "}, 0.0),
        ({"retry-after": "9999999"}, 86_400.0),
        ({"retry-after": "9" * 5000}, 86_400.0),
        ({"retry-after": "Mon, 02 Mar 2026 10:01:30 GMT"}, 90.0),
        ({"retry-after": "Mon, 02 Mar 2026 10:01:30"}, 90.0),
        ({"retry-after": "Mon, 02 Mar 2026 09:00:00 GMT"}, 0.0),
        ({"retry-after": "Sat, 02 Mar 2999 10:00:00 GMT"}, 86_400.0),
        # its clock is an hour ahead of ours, or a day behind: 90 s are 90 s
        ({"retry-after": "Mon, 02 Mar 2026 11:01:30 GMT", "date": "Mon, 02 Mar 2026 11:00:00 GMT"}, 90.0),
        ({"retry-after": "Sun, 01 Mar 2026 10:01:30 GMT", "date": "Sun, 01 Mar 2026 10:00:00 GMT"}, 90.0),
        ({"retry-after": "Mon, 02 Mar 2026 10:01:30 GMT", "date": "yesterday"}, 90.0),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-5"}, None),
        ({"retry-after": ""}, None),
        ({}, None),
    ],
)
def test_retry_after_is_seconds_or_a_date_of_the_servers_clock(headers: dict[str, str], seconds: float | None) -> None:
    assert retry_after(headers, NOW) == seconds


LIKE_A_DATE = st.from_regex(r"\A\w{3}, \d{1,3} (Jan|Mar) \d{1,6} \d\d:\d\d:\d\d [+-]?\d{0,12}\Z")


@given(header=st.text() | LIKE_A_DATE, date=st.text() | LIKE_A_DATE)
def test_no_header_makes_it_fail_or_wait_more_than_a_day(header: str, date: str) -> None:
    found: Any = retry_after({"retry-after": header, "date": date}, NOW)
    assert found is None or 0.0 <= found <= 86_400.0
