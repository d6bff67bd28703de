"""Limits that hold for a whole process: parallel calls to a server, calls a minute with a key.

Dify's own limit counts refused calls too, in a sliding window of 60 s, so the one way out of it is to be silent.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from context_engine.errors import SourceBusy, SourceRateLimited

__all__ = ["Gate", "RateBudget", "Slot", "shared_budget", "shared_gate"]

WINDOW_S: Final = 60.0

T = TypeVar("T")


class Slot:
    """One place of a gate; given back once, however often it is asked to."""

    __slots__ = ("_free",)

    def __init__(self, free: Callable[[], None]) -> None:
        self._free: Callable[[], None] | None = free

    def release(self) -> None:
        """Give the place back."""
        free, self._free = self._free, None
        if free is not None:
            free()


class Gate:
    """Bounds the calls that run at once."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._busy = 0

    def enter(self, most: int, patience_s: float) -> Slot:
        """Take a place of `most`, waiting for one.

        Raises:
            SourceBusy: none became free in time.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._busy < most, max(patience_s, 0.0)):
                raise SourceBusy(f"all {most} connections are in use (max_connections)", retryable=True)
            self._busy += 1
        return Slot(self._leave)

    def _leave(self) -> None:
        with self._changed:
            self._busy -= 1
            self._changed.notify_all()  # one who wants more room than there is would keep it from the others


class RateBudget:
    """The calls of one key in the last 60 s."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: deque[float] = deque()
        self._refused: float | None = None

    def free(self, limit: int | None, now: float) -> int | None:
        """Return how many calls may be made now; None: as many as wanted."""
        with self._lock:
            if self._silence(now, now) > 0:
                return 0
            self._forget(now)
            return None if limit is None else max(limit - len(self._made), 0)

    def take(self, limit: int | None, now: float, planned: float) -> None:
        """Count a call before it is made.

        Args:
            limit: calls in 60 s that this process may make; None for no limit.
            now: seconds that never go back.
            planned: when the search began that makes it. A refusal since then stops the searches after it: Dify alone
                knows which of the calls of one search it has room for.

        Raises:
            SourceRateLimited: it may not be made now; says when.
        """
        with self._lock:
            self._forget(now)
            wait = self._silence(now, planned)
            if limit is not None and len(self._made) >= limit:
                wait = max(wait, self._made[-limit] + WINDOW_S - now)
            if wait > 0:
                problem = f"the budget of calls a minute is used up for another {wait:.0f} s, so Dify was not asked"
                raise SourceRateLimited(problem, retryable=True, retry_after_s=round(wait, 3))
            if limit is not None:
                self._made.append(now)

    def refused(self, now: float) -> None:
        """Remember that Dify refused a call for its rate limit: the window has to pass in silence."""
        with self._lock:
            self._refused = now

    def _silence(self, now: float, planned: float) -> float:
        """Return how long to be silent yet."""
        if self._refused is None or planned <= self._refused:
            return 0.0
        return self._refused + WINDOW_S - now

    def _forget(self, now: float) -> None:
        while self._made and self._made[0] <= now - WINDOW_S:
            self._made.popleft()


_LOCK: Final = threading.Lock()
_GATES: Final[dict[Hashable, Gate]] = {}
_BUDGETS: Final[dict[Hashable, RateBudget]] = {}


def shared_gate(base_url: str) -> Gate:
    """Return the gate of a server in this process."""
    return _kept(_GATES, base_url, Gate)


def shared_budget(base_url: str, fingerprint: str) -> RateBudget:
    """Return the budget of a key in this process."""
    return _kept(_BUDGETS, (base_url, fingerprint), RateBudget)


def _kept(kept: dict[Hashable, T], key: Hashable, make: Callable[[], T]) -> T:
    with _LOCK:
        if key not in kept:
            kept[key] = make()
        return kept[key]
