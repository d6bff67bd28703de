"""Async functions of adapters, called by plain code: the result, the deadline, errors, contexts and a blocked loop."""

from __future__ import annotations

import asyncio
import os
import threading
from contextvars import ContextVar

import pytest

from context_engine.core.concurrency import event_loop
from context_engine.core.concurrency.awaiting import awaited, close
from context_engine.core.concurrency.calls import Bulkhead, DeadlineExceeded, call_within, countdown
from context_engine.core.concurrency.event_loop import EventLoop

LABEL: ContextVar[str] = ContextVar("label", default="none")


async def doubled(number):
    await asyncio.sleep(0)
    return number * 2


def test_a_plain_value_is_returned_and_an_awaitable_is_awaited():
    assert awaited(3) == 3
    assert awaited(None) is None
    assert awaited(doubled(3)) == 6


def test_an_awaitable_that_is_no_coroutine_is_awaited_too():
    class Later:
        def __await__(self):
            return doubled(4).__await__()

    assert awaited(Later()) == 8


def test_an_error_is_raised_as_by_a_plain_function():
    async def failing():
        raise KeyError("limit")

    with pytest.raises(KeyError, match="limit"):
        awaited(failing())


def test_all_calls_run_in_one_loop_so_that_they_can_share_a_client():
    async def loop():
        return asyncio.get_running_loop()

    assert awaited(loop()) is awaited(loop())


def test_the_context_variables_of_the_caller_are_seen():
    async def label():
        return LABEL.get()

    token = LABEL.set("trace 7")
    try:
        assert awaited(label()) == "trace 7"
    finally:
        LABEL.reset(token)


def test_it_may_be_called_where_a_loop_runs_already():
    async def handler():
        return awaited(doubled(5))

    assert asyncio.run(handler()) == 10


class Hanging:
    """Waits for ever, and notes that it was cancelled."""

    def __init__(self):
        self.cancelled = threading.Event()

    async def __call__(self):
        try:
            await asyncio.Event().wait()
        finally:
            self.cancelled.set()


@pytest.mark.parametrize(
    "call",
    [
        lambda hanging: awaited(hanging(), 0.01),
        lambda hanging: Bulkhead("b").submit(lambda: awaited(hanging()), countdown(0.01)).result(),
        lambda hanging: call_within(0.01, lambda: awaited(hanging()), name="c"),
    ],
)
def test_at_the_deadline_the_task_is_cancelled(call):
    hanging = Hanging()
    with pytest.raises(DeadlineExceeded):
        call(hanging)
    assert hanging.cancelled.wait(5)


def test_a_bulkhead_is_free_again_after_an_overdue_async_call():
    bulkhead, hanging = Bulkhead("b"), Hanging()
    with pytest.raises(DeadlineExceeded):
        bulkhead.submit(lambda: awaited(hanging()), countdown(0.01)).result()
    assert bulkhead.submit(lambda: 1, countdown(1.0)).result() == 1


def test_a_loop_that_a_function_blocks_is_left_behind(monkeypatch):
    monkeypatch.setattr(event_loop, "_RESPONSE_S", 0.01)
    loop, released = EventLoop(), threading.Event()

    async def blocking():
        released.wait()

    with pytest.raises(DeadlineExceeded):
        loop.result(blocking(), 0.01)
    assert loop.result(doubled(1), 5.0) == 2
    released.set()


def test_an_async_function_that_would_wait_for_its_own_loop_is_told_so():
    async def outer():
        return awaited(doubled(1))

    async def beside():
        return await asyncio.to_thread(awaited, doubled(1))

    with pytest.raises(RuntimeError, match=r"asyncio\.to_thread"):
        awaited(outer())
    assert awaited(beside()) == 2


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_a_forked_child_gets_a_loop_of_its_own():
    assert awaited(doubled(1)) == 2
    child = os.fork()
    if child == 0:
        os._exit(0 if awaited(doubled(2), 5.0) == 4 else 1)
    assert os.waitpid(child, 0)[1] == 0


def test_an_async_close_is_awaited():
    closed = []

    class Async:
        async def close(self):
            closed.append("async")

    class Plain:
        def close(self):
            closed.append("plain")

    close(Async())
    close(Plain())
    assert closed == ["async", "plain"]
