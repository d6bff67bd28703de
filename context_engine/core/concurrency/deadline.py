"""A call to something slow: in time or not at all."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, TypeVar

from context_engine.core.concurrency.bulkhead import Bulkhead, Overdue
from context_engine.core.concurrency.executor import EXECUTOR, Busy
from context_engine.errors import ContextEngineError

logger = logging.getLogger(__name__)

T = TypeVar("T")


class DeadlineExceeded(Exception):
    """A call did not return in time; it goes on by itself, and what it returns is dropped."""


def countdown(seconds: float, monotonic: Callable[[], float] = time.monotonic) -> Callable[[], float]:
    """Return a function that says how many of the seconds are left, less than 0 when they have passed."""
    due = monotonic() + seconds
    return lambda: due - monotonic()


def done_within(future: Future[Any], seconds: float) -> bool:
    """Wait for a future, at most so many seconds of the machine's clock; return whether it is done."""
    left = countdown(seconds)
    while not future.done() and (patience := left()) > 0:
        with suppress(TimeoutError):  # of the waiting: what the call raises is returned here
            future.exception(patience)
    return future.done()


def call_within(seconds: float, call: Callable[[], T], *, name: str) -> T:
    """Return what a call returns that is made in a daemon thread.

    Args:
        seconds: until it is given up.
        call: its exceptions are raised here.
        name: of its thread.

    Raises:
        DeadlineExceeded: it has not returned by then.
        Busy: no thread could be started.
    """
    future = EXECUTOR.submit(call, name)
    if not done_within(future, seconds):
        raise DeadlineExceeded
    return future.result()


class DeadlineCaller:
    """Calls one model, each time with a deadline; while a call is overdue it is not called again.

    Args:
        name: of what is called, for errors.
        verb: what it does, for the names of threads.
        monotonic: seconds that never go back.
        error: the class of its errors.
    """

    def __init__(self, name: str, verb: str, monotonic: Callable[[], float], error: type[ContextEngineError]) -> None:
        self._name, self._monotonic, self._error = name, monotonic, error
        self._bulkhead = Bulkhead(f"{verb}-{name}")

    def call(self, call: Callable[[], T], seconds: float, *, nothing: str) -> T:
        """Return what the call returns.

        Args:
            call: made in another thread.
            seconds: until it is given up; less than 0 is 0.
            nothing: what was not given in time, for the error, such as "no scores".

        Raises:
            ContextEngineError: of the class given; it failed, gave nothing in time, or is stuck in an overdue call.
        """
        left = countdown(seconds, self._monotonic)
        try:
            future = self._bulkhead.submit(call, left)
        except Overdue as busy:
            raise self._error(f"{self._name} is {busy}") from None
        except Busy as busy:
            raise self._error(f"{self._name} could not be called: {busy}") from None
        if not done_within(future, seconds):
            raise self._error(f"{self._name} gave {nothing} within {max(seconds, 0.0):.3g} s")
        error = future.exception()
        if error is None:
            return future.result()
        if isinstance(error, self._error):
            raise error
        logger.debug("%s raised", self._name, exc_info=error)
        raise self._error(f"{self._name} failed with {type(error).__name__}") from error
