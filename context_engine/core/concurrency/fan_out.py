"""Many calls at once, each with a deadline; one that never returns holds up nobody."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, TypeVar

from context_engine.core.concurrency.deadline import countdown, done_within
from context_engine.core.concurrency.executor import EXECUTOR, Busy, DaemonExecutor, resolve

T = TypeVar("T")


def submit_all(
    calls: Sequence[Callable[[], T]], *, width: int, name: str, executor: DaemonExecutor = EXECUTOR
) -> list[Future[T]]:
    """Start calls, at most `width` at once and the first ones first; return a future for each, in order.

    Args:
        calls: a call whose future is cancelled before its turn is never made.
        width: most threads.
        name: of the threads.
        executor: runs the calls.

    Raises:
        Busy: not one thread could be started.
    """
    futures: list[Future[T]] = [Future() for _ in calls]
    todo = deque(zip(futures, calls, strict=True))

    def work() -> None:
        while True:
            try:
                resolve(*todo.popleft())
            except IndexError:
                return

    for started in range(min(width, len(calls))):
        try:
            executor.submit(work, name)
        except Busy:
            if not started:
                raise
            break
    return futures


def wait_all(futures: Sequence[Future[Any]], seconds: Sequence[float]) -> list[bool]:
    """Wait for futures, each for so many seconds from now; return for each, in order, whether it was done in time.

    One that was not is cancelled: if its call has not begun, it never will.
    """
    left = [countdown(one) for one in seconds]
    in_time = [False] * len(futures)
    for place in sorted(range(len(futures)), key=lambda place: seconds[place]):
        in_time[place] = done_within(futures[place], left[place]())
        if not in_time[place]:
            futures[place].cancel()
    return in_time
