"""One call to something slow: in time, or an error of the class given."""

from __future__ import annotations

import threading

import pytest

from context_engine.core.concurrency.deadline import CallLane
from context_engine.core.engine import SystemClock
from context_engine.errors import RefinerError, RerankerError


def test_an_answer_in_time_is_returned() -> None:
    lane = CallLane("model", "ask", SystemClock(), RerankerError)
    names: list[str] = []
    assert lane.ask(lambda: names.append(threading.current_thread().name) or 7, 5.0, nothing="scores") == 7
    assert names == ["ask-model"]


def test_what_is_late_is_given_up_and_not_asked_again_until_it_is_back() -> None:
    lane, gate, back = CallLane("model", "ask", SystemClock(), RefinerError), threading.Event(), threading.Event()

    def late() -> None:
        gate.wait(10)
        back.set()

    with pytest.raises(RefinerError, match=r"^model gave no answer within 0\.05 s$"):
        lane.ask(late, 0.05, nothing="no answer")
    with pytest.raises(RefinerError, match="still busy with an overdue call"):
        lane.ask(lambda: 1, 0.05, nothing="no answer")
    gate.set()
    assert back.wait(10)
    for thread in threading.enumerate():
        if thread.name == "ask-model":
            thread.join(10)
    assert lane.ask(lambda: 2, 5.0, nothing="no answer") == 2


@pytest.mark.parametrize(
    ("raised", "message"),
    [(RerankerError("no model"), "no model"), (ValueError("secret"), "model failed with ValueError")],
)
def test_a_failure_is_told_in_our_words(raised: Exception, message: str) -> None:
    def fail() -> None:
        raise raised

    with pytest.raises(RerankerError) as told:
        CallLane("model", "ask", SystemClock(), RerankerError).ask(fail, 5.0, nothing="scores")
    assert str(told.value) == message
