"""The real clock and the real ids, the defaults of an engine."""

from __future__ import annotations

import secrets
import time
from datetime import UTC, datetime


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current moment, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()


class TimeSortedIds:
    """Ids of 24 hex digits: 12 of milliseconds since 1970, 12 random."""

    def new(self, now: datetime) -> str:
        """Return a new id that sorts after every id of an earlier millisecond."""
        return f"{int(now.timestamp() * 1000):012x}{secrets.token_hex(6)}"
