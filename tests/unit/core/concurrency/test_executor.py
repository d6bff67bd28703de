"""Daemon threads that are used again."""

from __future__ import annotations

import gc
import threading
import time
import weakref
from concurrent.futures import Future
from contextvars import ContextVar

import pytest

from context_engine.core.concurrency.calls import Busy, DaemonExecutor


def thread_of(executor: DaemonExecutor) -> threading.Thread:
    """Return the thread that a call ran in, after it has become idle."""
    thread = executor.submit(threading.current_thread, "call").result(30)
    while not executor._idle and thread.is_alive():
        time.sleep(0.001)
    return thread


def no_thread(_thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


def test_a_thread_is_used_again_and_keeps_no_process_alive() -> None:
    executor = DaemonExecutor()
    first, second = thread_of(executor), thread_of(executor)
    assert first is second
    assert first.daemon


def test_calls_run_at_once_each_in_a_thread_of_its_own() -> None:
    executor, meeting = DaemonExecutor(), threading.Barrier(5)
    for _ in range(4):
        executor.submit(lambda: meeting.wait(30), "call")
    meeting.wait(30)  # broken if any of the four waited for another
    assert not meeting.broken


def test_it_is_busy_while_a_call_runs_waited_for_or_not() -> None:
    executor, ended = DaemonExecutor(), threading.Event()
    assert not executor.busy
    calls = [executor.submit(lambda: ended.wait(30), "call") for _ in range(2)]
    assert executor.busy
    ended.set()
    for call in calls:
        call.result(30)
    while len(executor._idle) < 2:
        time.sleep(0.001)
    assert not executor.busy


def test_an_idle_thread_ends_and_the_next_call_gets_another() -> None:
    executor = DaemonExecutor(idle_s=0.01)
    first = thread_of(executor)
    first.join(30)
    assert not first.is_alive()
    assert thread_of(executor) is not first


def test_after_a_fork_no_thread_is_waited_for() -> None:
    executor = DaemonExecutor(idle_s=0.01)
    first = thread_of(executor)
    first.join(30)
    executor.forget()
    assert thread_of(executor) is not first


def test_a_thread_bears_the_name_of_the_call_that_it_runs() -> None:
    executor = DaemonExecutor()
    names = [executor.submit(lambda: threading.current_thread().name, name).result(30) for name in ("one", "two")]
    assert names == ["one", "two"]


def test_a_context_variable_of_one_call_is_not_seen_by_the_next_nor_is_the_callers() -> None:
    executor, variable = DaemonExecutor(), ContextVar("variable", default="unset")
    variable.set("caller")
    thread_of(executor)
    assert executor.submit(lambda: (variable.get(), variable.set("call"))[0], "call").result(30) == "unset"
    assert executor.submit(variable.get, "call").result(30) == "unset"


@pytest.mark.parametrize("error", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, MemoryError])
def test_whatever_a_call_raises_is_in_its_future_and_ends_no_thread(error: type[BaseException]) -> None:
    executor = DaemonExecutor()
    before = thread_of(executor)

    def fail() -> None:
        raise error("broken")

    assert isinstance(executor.submit(fail, "call").exception(30), error)
    assert thread_of(executor) is before


def test_what_a_failed_call_held_is_free_without_the_garbage_collector() -> None:
    class Large:
        pass

    executor, gone = DaemonExecutor(), threading.Event()

    def submitted() -> Future[None]:
        large = Large()
        weakref.finalize(large, gone.set)

        def fail() -> None:
            raise ValueError(str(large))

        return executor.submit(fail, "call")

    gc.disable()
    try:
        future = submitted()
        future.exception(30)
        del future
        assert gone.wait(10)
    finally:
        gc.enable()


def test_where_no_thread_can_be_started_the_call_is_refused_and_the_next_may_run(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    executor = DaemonExecutor()
    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", no_thread)
        with pytest.raises(Busy, match=r"^no thread could be started$"):
            executor.submit(lambda: 1, "call")
    assert executor.submit(lambda: 1, "call").result(30) == 1
