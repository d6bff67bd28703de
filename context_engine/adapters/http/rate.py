"""Limits that hold for a whole process: parallel calls to a server, calls a minute with a key.

Dify's own limit counts refused calls too, in a sliding window of 60 s, so the one way out of it is to be silent.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from typing import Final, TypeVar

from context_engine.adapters.sources.dify.fair_queue import FairQueue
from context_engine.core.concurrency.forking import Lock
from context_engine.errors import SourceRateLimited

__all__ = ["RateBudget", "shared_budget", "shared_queue"]

WINDOW_S: Final = 60.0

T = TypeVar("T")


class RateBudget:
    """The calls of one key in the last 60 s."""

    def __init__(self) -> None:
        self._lock = Lock()
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


_LOCK: Final = Lock()
_QUEUES: Final[dict[Hashable, FairQueue]] = {}
_BUDGETS: Final[dict[Hashable, RateBudget]] = {}


def shared_queue(base_url: str) -> FairQueue:
    """Return the queue before a server in this process."""
    return _kept(_QUEUES, base_url, FairQueue)


def shared_budget(base_url: str, fingerprint: str) -> RateBudget:
    """Return the budget of a key in this process."""
    return _kept(_BUDGETS, (base_url, fingerprint), RateBudget)


def _kept(kept: dict[Hashable, T], key: Hashable, make: Callable[[], T]) -> T:
    with _LOCK:
        if key not in kept:
            kept[key] = make()
        return kept[key]
