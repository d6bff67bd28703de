"""The calls a minute that a plan allows, counted for a whole process.

A server may count refused calls too, in a sliding window of 60 s: then the one way out of its limit is to be silent.
"""

from __future__ import annotations

from collections import deque
from typing import Final

from context_engine.core.concurrency.forking import Lock

WINDOW_S: Final = 60.0


class RateBudget:
    """The calls of one key in the last 60 s. Safe for several threads."""

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

    def take(self, limit: int | None, now: float, planned: float) -> float:
        """Count a call before it is made and return 0; or the seconds until it may be made, and it does not count.

        Args:
            limit: calls in 60 s that this process may make; None for no limit.
            now: seconds that never go back.
            planned: when the search began that makes it. A refusal since then stops the searches after it: the server
                alone knows which of the calls of one search it has room for.
        """
        with self._lock:
            self._forget(now)
            wait = self._silence(now, planned)
            if limit is not None and len(self._made) >= limit:
                wait = max(wait, self._made[-limit] + WINDOW_S - now)
            if wait > 0:
                return wait
            if limit is not None:
                self._made.append(now)
            return 0.0

    def refused(self, now: float) -> None:
        """Remember that a call was refused for the rate limit: the window has to pass in silence."""
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
_BUDGETS: Final[dict[tuple[str, str], RateBudget]] = {}


def shared_budget(server: str, fingerprint: str) -> RateBudget:
    """Return the budget of a key at a server, one in this process."""
    with _LOCK:
        return _BUDGETS.setdefault((server, fingerprint), RateBudget())
