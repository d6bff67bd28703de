"""A bound on the calls to one thing, so that one that hangs takes nobody else's threads and nobody else's time."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import TypeVar

from context_engine.core.concurrency.executor import EXECUTOR, Busy, DaemonExecutor
from context_engine.core.concurrency.forking import forget_in_child

T = TypeVar("T")


class Overdue(Busy):
    """An earlier call has not returned though its time is up."""


class Bulkhead:
    """The calls to one thing that are under way. Safe for several threads.

    While one of them is overdue no other is made: what never returns costs one caller its deadline and one thread.

    Args:
        name: of the threads.
        executor: runs the calls.
    """

    def __init__(self, name: str, executor: DaemonExecutor = EXECUTOR) -> None:
        self._name, self._executor = name, executor
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Know of no call under way: in a forked child none is."""
        self._lock = threading.Lock()
        self._under_way: dict[object, Callable[[], float]] = {}

    def submit(self, call: Callable[[], T], left: Callable[[], float], *, limit: int | None = None) -> Future[T]:
        """Start a call and return its future, or refuse it at once.

        Args:
            call: made in another thread.
            left: seconds until the call is overdue.
            limit: most calls under way, this one included; None for any number.

        Raises:
            Overdue: an earlier call is overdue.
            Busy: as many calls as allowed are under way, or no thread could be started.
        """
        leave = self.enter(left, limit=limit)

        def tracked() -> T:
            try:
                return call()
            finally:
                leave()

        try:
            return self._executor.submit(tracked, self._name)
        except Busy:
            leave()
            raise

    def enter(self, left: Callable[[], float], *, limit: int | None = None) -> Callable[[], None]:
        """Count a call as under way that is made elsewhere, and return what is to be called when it has ended.

        Args:
            left, limit: as in `submit`.

        Raises:
            Overdue: an earlier call is overdue.
            Busy: as many calls as allowed are under way.
        """
        token = object()
        with self._lock:
            if any(left_of_one() <= 0 for left_of_one in self._under_way.values()):
                raise Overdue("still busy with an overdue call")
            if limit is not None and len(self._under_way) >= limit:
                raise Busy(f"{limit} calls are under way")
            self._under_way[token] = left
        return lambda: self._leave(token)

    def _leave(self, token: object) -> None:
        with self._lock:
            self._under_way.pop(token, None)
