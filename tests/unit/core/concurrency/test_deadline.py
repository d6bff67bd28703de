"""One call to something slow: in time, or an error."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from context_engine.core.concurrency.calls import (
    EXECUTOR,
    Busy,
    DeadlineCaller,
    DeadlineExceeded,
    call_within,
    countdown,
    done_within,
)
from context_engine.errors import MissingExtra, RerankerError


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a call that hangs waits for; open when the test is over."""
    gate = threading.Event()
    yield gate
    gate.set()


@pytest.fixture
def caller() -> DeadlineCaller:
    return DeadlineCaller("model", "rerank", time.monotonic, RerankerError)


@pytest.fixture
def no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """No thread can be started, and none is idle."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    monkeypatch.setattr(EXECUTOR, "_idle", [])


def test_a_countdown_goes_below_nothing() -> None:
    now = [10.0]
    left = countdown(5.0, lambda: now[0])
    assert left() == 5.0
    now[0] = 17.0  # due at 10 + 5 = 15
    assert left() == -2.0


def test_an_answer_in_time_is_returned_from_a_thread_of_its_name(caller: DeadlineCaller) -> None:
    assert caller.call(lambda: threading.current_thread().name, 30.0, nothing="no scores") == "rerank-model"
    assert call_within(30.0, lambda: threading.current_thread().name, name="doctor") == "doctor"


def test_what_is_late_is_given_up_and_not_called_again_until_it_is_back(
    caller: DeadlineCaller, gate: threading.Event
) -> None:
    with pytest.raises(RerankerError, match=r"^model gave no scores within 0\.05 s$"):
        caller.call(gate.wait, 0.05, nothing="no scores")
    calls: list[int] = []
    for _ in range(100):
        with pytest.raises(RerankerError, match=r"^model is still busy with an overdue call$"):
            caller.call(lambda: calls.append(1), 30.0, nothing="no scores")
    assert calls == []
    gate.set()
    while True:  # until its thread has returned
        try:
            assert caller.call(lambda: 2, 30.0, nothing="no scores") == 2
            break
        except RerankerError:
            time.sleep(0.001)


def test_a_late_answer_is_no_answer_to_the_next_call(caller: DeadlineCaller, gate: threading.Event) -> None:
    def late() -> str:
        gate.wait(30)
        return "late"

    other = DeadlineCaller("model", "rerank", time.monotonic, RerankerError)
    with pytest.raises(RerankerError, match="within"):
        caller.call(late, 0.01, nothing="no scores")
    gate.set()
    assert other.call(lambda: "next", 30.0, nothing="no scores") == "next"


@pytest.mark.parametrize("seconds", [0.0, -3.0])
def test_a_deadline_that_has_passed_gives_the_call_up_at_once(
    caller: DeadlineCaller, gate: threading.Event, seconds: float
) -> None:
    with pytest.raises(RerankerError, match=r"^model gave no scores within 0 s$"):
        caller.call(gate.wait, seconds, nothing="no scores")
    with pytest.raises(RerankerError, match="still busy with an overdue call"):
        caller.call(lambda: 1, 30.0, nothing="no scores")
    with pytest.raises(DeadlineExceeded):
        call_within(seconds, gate.wait, name="doctor")


@pytest.mark.parametrize(
    ("raised", "message"),
    [
        (RerankerError("no model"), "no model"),
        (MissingExtra("embedder 'x'", "onnx"), str(MissingExtra("embedder 'x'", "onnx"))),
        (ValueError("secret"), "model failed with ValueError"),
        (TimeoutError("secret"), "model failed with TimeoutError"),  # the call's own, not the deadline
        (SystemExit("secret"), "model failed with SystemExit"),
    ],
)
def test_a_failure_is_an_error_of_the_class_given_without_a_strangers_text(
    caller: DeadlineCaller, raised: BaseException, message: str
) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(RerankerError) as caught:
        caller.call(fail, 30.0, nothing="scores")
    assert str(caught.value) == message


def test_a_timeout_that_the_call_raises_is_not_taken_for_the_deadline() -> None:
    def fail() -> None:
        raise TimeoutError("of a socket")

    with pytest.raises(TimeoutError, match="of a socket"):
        call_within(30.0, fail, name="doctor")


@pytest.mark.usefixtures("no_thread")
def test_where_no_thread_can_be_started_it_is_busy(caller: DeadlineCaller) -> None:
    with pytest.raises(RerankerError, match=r"^model could not be called: no thread could be started$"):
        caller.call(lambda: 1, 30.0, nothing="no scores")
    with pytest.raises(Busy, match="no thread could be started"):
        call_within(30.0, lambda: 1, name="doctor")


def test_a_clock_that_stands_still_holds_nobody_up(gate: threading.Event) -> None:
    caller = DeadlineCaller("model", "rerank", lambda: 0.0, RerankerError)
    with pytest.raises(RerankerError, match=r"within 0\.01 s"):
        caller.call(gate.wait, 0.01, nothing="no scores")


def test_waiting_that_is_woken_too_early_goes_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """Timers of patched threads fire a little early: a call is overdue when it is given up, and not before."""
    future: Future[int] = Future()
    waits: list[float] = []

    def early(_self: Any, seconds: float) -> None:
        waits.append(seconds)
        raise TimeoutError

    monkeypatch.setattr(Future, "exception", early)
    due = time.monotonic() + 0.02
    assert not done_within(future, 0.02)
    assert time.monotonic() >= due
    assert len(waits) > 1
