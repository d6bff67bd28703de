"""Many calls at once: results in the order of the calls, each with a deadline of its own."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from functools import partial

import pytest

from context_engine.core.concurrency.calls import Busy, DaemonExecutor, submit_all, wait_all


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a call that hangs waits for; open when the test is over."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_results_come_in_the_order_of_the_calls_whichever_ends_first(gate: threading.Event) -> None:
    def first() -> str:
        gate.wait(30)
        return "first"

    def second() -> str:
        gate.set()
        return "second"

    futures = submit_all([first, second], width=2, name="call")
    assert wait_all(futures, [30.0, 30.0]) == [True, True]
    assert [future.result() for future in futures] == ["first", "second"]


def test_no_more_than_width_run_at_once_and_the_first_ones_first() -> None:
    running, most, order, lock = [0], [0], list[int](), threading.Lock()

    def call(number: int) -> None:
        with lock:
            order.append(number)
            running[0] += 1
            most[0] = max(most[0], running[0])
        meeting.wait(0.001)
        with lock:
            running[0] -= 1

    meeting = threading.Event()
    futures = submit_all([partial(call, number) for number in range(12)], width=3, name="call")
    assert wait_all(futures, [30.0] * 12) == [True] * 12
    assert most[0] <= 3
    futures = submit_all([partial(call, number) for number in range(12, 24)], width=1, name="call")
    assert wait_all(futures, [30.0] * 12) == [True] * 12
    assert order[12:] == list(range(12, 24))


def test_each_call_is_given_up_when_its_own_time_is_up(gate: threading.Event) -> None:
    futures = submit_all([gate.wait, lambda: 1, gate.wait], width=3, name="call")
    assert wait_all(futures, [0.02, 30.0, 0.01]) == [False, True, False]


def test_an_answer_that_comes_after_its_time_is_late_though_others_are_still_waited_for(
    gate: threading.Event,
) -> None:
    late: Future[int] = Future()
    late.set_running_or_notify_cancel()
    threading.Timer(0.05, lambda: late.set_result(1)).start()  # after .01 s, and before the other's second

    def patient() -> None:
        late.exception(30)
        gate.set()

    [other] = submit_all([patient], width=1, name="call")
    assert wait_all([other, late], [30.0, 0.01]) == [True, False]
    assert gate.is_set()


def test_what_has_not_begun_in_time_never_begins(gate: threading.Event) -> None:
    made: list[int] = []
    began = threading.Event()

    def hang() -> bool:
        began.set()
        return gate.wait()

    hung, never = submit_all([hang, lambda: made.append(1)], width=1, name="call")
    assert began.wait(30)
    assert wait_all([hung, never], [0.01, 0.01]) == [False, False]
    assert (hung.cancelled(), never.cancelled()) == (False, True)  # what runs goes on by itself
    gate.set()
    assert hung.result(30)
    [after] = submit_all([lambda: 2], width=1, name="call")
    assert after.result(30) == 2
    assert made == []


@pytest.mark.parametrize("seconds", [0.0, -1.0])
def test_a_deadline_that_has_passed_waits_for_nothing(gate: threading.Event, seconds: float) -> None:
    done: Future[int] = Future()
    done.set_result(1)
    [hung] = submit_all([gate.wait], width=1, name="call")
    assert wait_all([hung, done], [seconds] * 2) == [False, True]


def test_no_calls_are_no_results() -> None:
    assert wait_all(submit_all([], width=4, name="call"), []) == []


def test_one_thread_makes_all_calls_where_no_more_can_be_started_and_none_is_busy(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    start, started = threading.Thread.start, [0]

    def only_one(thread: threading.Thread) -> None:
        started[0] += 1
        if started[0] > 1:
            raise RuntimeError("can't start new thread")
        start(thread)

    blocked = threading.Event()  # so that the first thread is not idle before the second is asked for
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", only_one)
        futures = submit_all([blocked.wait, lambda: True], width=2, name="call", executor=DaemonExecutor())
        blocked.set()
        assert wait_all(futures, [30.0] * 2) == [True] * 2
        with pytest.raises(Busy, match="no thread could be started"):
            submit_all([lambda: 1], width=2, name="call", executor=DaemonExecutor())
