"""One event loop in a daemon thread, for the async functions of adapters and models.

All share it, because clients such as connection pools belong to the loop that they were first used in. A function that
blocks the loop delays the others; a loop that does not respond is left behind, and the next call gets a new one.

In a process that gevent has patched, all "threads" are greenlets of one thread, and asyncio notes the running loop for
each thread. So the loop removes this note while it waits: code outside it may run a loop of its own.
"""

from __future__ import annotations

import asyncio
import selectors
import threading
from collections.abc import Awaitable, Coroutine
from typing import Final, TypeVar

from context_engine.core.concurrency.calls import DeadlineExceeded, done_within
from context_engine.core.concurrency.forking import abandon, forget_in_child

T = TypeVar("T")
_RESPONSE_S: Final = 1.0


class _Selector(selectors.DefaultSelector):
    """Waits for the loop's events; meanwhile the loop is not noted as running in this thread."""

    outside: asyncio.AbstractEventLoop | None = None

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        loop = asyncio._get_running_loop()
        asyncio._set_running_loop(self.outside)
        try:
            return super().select(timeout)
        finally:
            self.outside = asyncio._get_running_loop()
            asyncio._set_running_loop(loop)


class EventLoop:
    """An event loop that starts at its first use. Safe for many threads; empty in a forked child."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop the loop, whose thread does not exist in a forked process."""
        abandon(self._loop)
        self._lock, self._loop = threading.Lock(), None

    def result(self, awaitable: Awaitable[T], seconds: float | None) -> T:
        """Return the result of an awaitable.

        Args:
            seconds: the time limit; None for no limit.

        Raises:
            DeadlineExceeded: no result within the limit; the task is cancelled.
            RuntimeError: this is the loop's own thread, which would wait for itself.
            Exception: of any kind; the awaitable raised it.
        """
        loop = self._running()
        if asyncio._get_running_loop() is loop:
            if isinstance(awaitable, Coroutine):
                awaitable.close()
            raise RuntimeError(
                "an async function called a plain one that waits for the same event loop: call that one "
                "by asyncio.to_thread"
            )
        future = asyncio.run_coroutine_threadsafe(_result(awaitable), loop)
        if seconds is None or done_within(future, seconds):
            return future.result()
        future.cancel()
        self._leave_if_stuck(loop)
        raise DeadlineExceeded

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                selector = _Selector()
                self._loop = asyncio.SelectorEventLoop(selector)
                serve = (self._loop, selector)
                threading.Thread(target=_serve, args=serve, name="event-loop", daemon=True).start()
            return self._loop

    def _leave_if_stuck(self, loop: asyncio.AbstractEventLoop) -> None:
        """Forget the loop if a function blocks it."""
        responded = threading.Event()
        loop.call_soon_threadsafe(responded.set)
        if responded.wait(_RESPONSE_S):
            return
        with self._lock:
            if self._loop is loop:
                self._loop = None


def _serve(loop: asyncio.AbstractEventLoop, selector: _Selector) -> None:
    selector.outside = asyncio._get_running_loop()
    asyncio._set_running_loop(None)
    loop.run_forever()


async def _result(awaitable: Awaitable[T]) -> T:
    return await awaitable


LOOP: Final = EventLoop()
"""The event loop of this process."""
