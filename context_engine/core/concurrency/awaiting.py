"""Lets plain code use what an async function returns."""

from __future__ import annotations

import inspect
from typing import Any, Final

from context_engine.core.concurrency.calls import TIME_LEFT

_CLOSING_S: Final = 5.0


def awaited(value: Any, seconds: float | None = None) -> Any:
    """Return a value as it is, and an awaitable's result.

    An awaitable runs in the event loop of this process, with the context variables of this thread. At the deadline its
    task is cancelled.

    Args:
        seconds: the time limit; None: that of the bulkhead's call that this thread makes, if there is one.

    Raises:
        DeadlineExceeded: the deadline came first.
        Exception: of any kind; the awaitable raised it.
    """
    if not inspect.isawaitable(value):
        return value
    from context_engine.core.concurrency.event_loop import LOOP  # imports asyncio, which plain adapters do not need

    left = TIME_LEFT.get()
    return LOOP.result(value, left() if seconds is None and left is not None else seconds)


def close(thing: Any) -> None:
    """Close something whose `close` may be async, which then gets five seconds.

    Raises:
        Exception: of any kind; it could not be closed.
    """
    awaited(thing.close(), _CLOSING_S)
