"""A cache of answers; equal questions asked at the same time are sent once."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable, Hashable
from typing import Final, Generic, NamedTuple, TypeVar

from cachetools import LRUCache

from context_engine.core.concurrency.forking import forget_in_child
from context_engine.errors import (
    SourceBusy,
    SourceError,
    SourceProtocolError,
    SourceRateLimited,
    SourceTimeout,
    SourceUnavailable,
)

_OUTAGE: Final = (SourceUnavailable, SourceTimeout, SourceRateLimited, SourceProtocolError)
_MOST_BYTES: Final = 32 * 1024 * 1024
T = TypeVar("T")


class Kept(NamedTuple, Generic[T]):
    """An answer; `size` in approximate bytes, `keep` if it may be reused, `made` in monotonic seconds."""

    value: T
    size: int
    keep: bool
    made: float


class _Flight(Generic[T]):
    """A request in progress; `given_up` if the asker ran out of time or turns, rather than Dify failing."""

    def __init__(self, due: float) -> None:
        self.due = due
        self.landed = threading.Event()
        self.given_up = False
        self.kept: Kept[T] | None = None
        self.error: SourceError | None = None


class AnswerCache(Generic[T]):
    """Answers by key, bounded in bytes; the least recently used are dropped first."""

    def __init__(self, monotonic: Callable[[], float], most_bytes: int = _MOST_BYTES) -> None:
        self._monotonic, self._most_bytes = monotonic, most_bytes
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Empty the cache in a forked child: no request is under way there, and entries may be half changed."""
        self._lock = threading.Lock()
        self._store: LRUCache[Hashable, Kept[T]] = LRUCache(self._most_bytes, getsizeof=lambda kept: kept.size)
        self._flights: dict[Hashable, _Flight[T]] = {}

    def get(
        self, key: Hashable, make: Callable[[], Kept[T]], *, ttl_s: float, stale_s: float, left: Callable[[], float]
    ) -> tuple[Kept[T], SourceError | None]:
        """Return the answer of a key, and the error if a stale answer replaces a failed call.

        A caller with the same question waits for the answer in progress, or shares its failure. If the first caller had
        no time left, or its turn never came, another one asks again.

        Args:
            make: asks; called by one thread at a time for a key.
            ttl_s: how long an answer is valid.
            stale_s: how much longer it may replace a call that fails in an outage.
            left: returns the seconds this caller can wait.

        Raises:
            SourceError: the call failed, and no stale answer is available.
        """
        while True:
            kept, flight, mine = self._begin(key, ttl_s, left())
            if kept is not None:
                return kept, None
            if mine:
                self._fly(key, flight, make, left)
                break
            if not flight.landed.wait(max(left(), 0.0)):
                raise SourceTimeout("an identical query in progress was not answered in time", retryable=True)
            if not flight.given_up:
                break
        if flight.kept is not None:
            return flight.kept, None
        error = flight.error or SourceUnavailable("the call was aborted", retryable=True)
        old = self._overdue(key, ttl_s + stale_s) if stale_s and isinstance(error, _OUTAGE) else None
        if old is None:
            raise copy.copy(error)  # each waiting thread raises its own
        return old, error

    def last(self, key: Hashable) -> Kept[T] | None:
        """Return the answer of a key, however old, or None."""
        with self._lock:
            return self._store.get(key)

    def _begin(self, key: Hashable, ttl_s: float, left: float) -> tuple[Kept[T] | None, _Flight[T], bool]:
        now = self._monotonic()
        with self._lock:
            kept = self._store.get(key)
            flight = self._flights.get(key)
            if kept is not None and now - kept.made < ttl_s:
                return kept, flight or _Flight(now), False
            if flight is not None and now < flight.due:
                return None, flight, False
            flight = self._flights[key] = _Flight(now + left)
            return None, flight, True

    def _fly(self, key: Hashable, flight: _Flight[T], make: Callable[[], Kept[T]], left: Callable[[], float]) -> None:
        try:
            flight.kept = make()
        except SourceError as error:
            flight.error = error
            flight.given_up = isinstance(error, SourceBusy) or left() <= 0
        finally:
            with self._lock:
                if self._flights.get(key) is flight:
                    del self._flights[key]
                kept = flight.kept
                if kept is not None and kept.keep and kept.size <= self._store.maxsize:
                    self._store[key] = kept
            flight.landed.set()

    def _overdue(self, key: Hashable, most_s: float) -> Kept[T] | None:
        with self._lock:
            kept = self._store.get(key)
            return kept if kept is not None and self._monotonic() - kept.made < most_s else None
