"""A circuit breaker: what fails several times in a row is left alone for a while."""

from __future__ import annotations

from context_engine.core.concurrency.forking import Lock


class Breaker:
    """Counts failures in a row. After `most` no call is made for `pause_s`, then one at a time until one succeeds.

    Safe for several threads.

    Attributes:
        failures: in a row, so far.
    """

    def __init__(self, most: int, pause_s: float) -> None:
        self._most, self._pause_s = most, pause_s
        self._lock = Lock()
        self._open_until = 0.0
        self.failures = 0

    @property
    def is_open(self) -> bool:
        """Whether the last calls failed, so that at most one call at a time is made."""
        return self.failures >= self._most

    def wait_s(self, now: float) -> float:
        """Return the seconds for which no call is made; 0: make it. After a pause only the first caller gets 0."""
        with self._lock:
            wait = self._open_until - now
            if not self.is_open or wait > 0:
                return wait if self.is_open else 0.0
            self._open_until = now + self._pause_s
            return 0.0

    def note(self, now: float, *, failed: bool) -> None:
        """Record how a call ended."""
        with self._lock:
            self.failures = self.failures + 1 if failed else 0
            if failed:
                self._open_until = now + self._pause_s
