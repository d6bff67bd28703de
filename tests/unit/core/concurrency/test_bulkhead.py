"""A bound on the calls to one thing: at the bound, and while a call is overdue, it is busy at once."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest

from context_engine.core.concurrency.calls import Bulkhead, Busy, DaemonExecutor, Overdue


class Left:
    """Seconds left, set by hand."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds

    def __call__(self) -> float:
        return self.seconds


def in_time() -> float:
    return 30.0


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What a call that hangs waits for; open when the test is over."""
    gate = threading.Event()
    yield gate
    gate.set()


def test_at_its_limit_it_is_busy_at_once_and_a_call_that_ends_makes_room(gate: threading.Event) -> None:
    bulkhead = Bulkhead("source")
    under_way = [bulkhead.submit(gate.wait, in_time, limit=3) for _ in range(3)]
    with pytest.raises(Busy, match=r"^not asked, because 3 calls are under way") as refused:
        bulkhead.submit(gate.wait, in_time, limit=3)
    assert not isinstance(refused.value, Overdue)
    with pytest.raises(Busy, match=r"^not asked, because 1 call is under way"):
        bulkhead.submit(gate.wait, in_time, limit=1)
    more = bulkhead.submit(gate.wait, in_time, limit=4)  # the limit is the caller's
    gate.set()
    assert [future.result(30) for future in (*under_way, more)] == [True] * 4
    assert bulkhead.submit(lambda: 1, in_time, limit=1).result(30) == 1


def test_while_a_call_is_overdue_no_other_is_made_though_there_is_room(gate: threading.Event) -> None:
    bulkhead, left = Bulkhead("source"), Left(0.001)
    hung = bulkhead.submit(gate.wait, left)
    assert bulkhead.submit(lambda: 1, in_time).result(30) == 1
    left.seconds = 0.0  # overdue from the moment on which its caller gives it up
    calls: list[int] = []
    for _ in range(100):
        with pytest.raises(Overdue, match=r"^still busy with an overdue call$"):
            bulkhead.submit(lambda: calls.append(1), in_time)
    assert calls == []
    gate.set()
    hung.result(30)
    assert bulkhead.submit(lambda: 2, in_time).result(30) == 2


def test_a_call_that_failed_is_under_way_no_more() -> None:
    def fail() -> None:
        raise SystemExit("broken")

    bulkhead = Bulkhead("source")
    assert isinstance(bulkhead.submit(fail, Left(0.0), limit=1).exception(30), SystemExit)
    assert bulkhead.submit(lambda: 1, in_time, limit=1).result(30) == 1


def test_one_that_hangs_makes_no_other_busy(gate: threading.Event) -> None:
    executor = DaemonExecutor()
    hung, other = Bulkhead("hung", executor), Bulkhead("other", executor)
    for _ in range(20):
        hung.submit(gate.wait, Left(1.0))
    assert [other.submit(lambda: 1, in_time, limit=1).result(30) for _ in range(20)] == [1] * 20


def test_a_call_for_which_no_thread_could_be_started_takes_no_place(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    bulkhead = Bulkhead("source", DaemonExecutor())
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(Busy, match=r"^no thread could be started$"):
            bulkhead.submit(lambda: 1, Left(0.0), limit=1)
    assert bulkhead.submit(lambda: 1, in_time, limit=1).result(30) == 1


def test_after_a_fork_nothing_is_under_way(gate: threading.Event) -> None:
    bulkhead = Bulkhead("source")
    hung = bulkhead.submit(gate.wait, Left(0.0))
    bulkhead.forget()
    assert bulkhead.submit(lambda: 1, in_time, limit=1).result(30) == 1
    gate.set()
    assert hung.result(30)  # one that ends after that is not missed
