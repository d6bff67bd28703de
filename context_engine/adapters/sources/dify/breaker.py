"""A circuit breaker: what has failed again and again is left alone for a while."""

from __future__ import annotations

from typing import Final

from context_engine.core.concurrency.forking import Lock
from context_engine.errors import SourceError, SourceProtocolError, SourceTimeout, SourceUnavailable

_COUNTED: Final = (SourceUnavailable, SourceTimeout, SourceProtocolError)


class Breaker:
    """Lets calls through until `most` failed in a row; then none for `pause_s`, then one at a time until one succeeds.

    Args:
        most: failures in a row that open it.
        pause_s: seconds it stays open.
    """

    def __init__(self, most: int = 5, pause_s: float = 30.0) -> None:
        self._most, self._pause_s = most, pause_s
        self._lock = Lock()
        self._failures = 0
        self._open_until = 0.0

    def check(self, now: float) -> None:
        """Pass, or refuse.

        Raises:
            SourceUnavailable: it is open; says for how long.
        """
        with self._lock:
            if self._failures < self._most:
                return
            wait = self._open_until - now
            if wait > 0:
                problem = f"failed {self._failures} times in a row and is left alone for another {wait:.0f} s"
                raise SourceUnavailable(problem, retryable=True, retry_after_s=round(wait, 3))
            self._open_until = now + self._pause_s  # this caller tries; the others wait for what comes of it

    def note(self, error: SourceError | None, now: float) -> None:
        """Count how a call ended; errors that are not Dify's failure (a wrong key, a rate limit) change nothing."""
        with self._lock:
            if error is None:
                self._failures = 0
            elif isinstance(error, _COUNTED):
                self._failures += 1
                self._open_until = now + self._pause_s
