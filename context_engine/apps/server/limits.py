"""Limits of the service: the rate of a principal, and the requests in progress and waiting."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from math import ceil, floor
from typing import Final

from cachetools import LRUCache

from context_engine.core.models import ServerSettings, Settings
from context_engine.errors import Overloaded

_MOST_PRINCIPALS: Final = 10_000
_MINUTE_S: Final = 60.0


@dataclass(frozen=True, slots=True)
class Allowance:
    """The remaining allowance of a principal.

    Attributes:
        granted: whether this request is allowed.
        remaining: requests allowed right after it.
        full_s: seconds until the bucket is full.
        wait_s: seconds until the next request is allowed; 0: now.
    """

    granted: bool
    remaining: int
    full_s: int
    wait_s: int
    per_minute: int

    def headers(self) -> list[tuple[bytes, bytes]]:
        """Return `RateLimit-Policy` and `RateLimit` as in the IETF draft."""
        policy = f'"principal";q={self.per_minute};w={_MINUTE_S:.0f}'
        left = f'"principal";r={self.remaining};t={self.full_s}'
        return [(b"ratelimit-policy", policy.encode()), (b"ratelimit", left.encode())]


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimits:
    """Token buckets of all principals; used from the event loop only.

    Args:
        monotonic: a monotonic clock in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._buckets: LRUCache[str, _Bucket] = LRUCache(_MOST_PRINCIPALS)

    def take(self, principal: str, settings: ServerSettings | Settings) -> Allowance | None:
        """Take one request from a principal's bucket; None if there is no limit.

        A bucket holds `server_rate_burst` requests and fills with `server_rate_per_minute` / 60 a second.
        """
        per_minute, most = settings.server_rate_per_minute, float(settings.server_rate_burst)
        if not per_minute:
            return None
        now, a_second = self._monotonic(), per_minute / _MINUTE_S
        bucket = self._buckets.get(principal)
        if bucket is None:
            bucket = self._buckets[principal] = _Bucket(most, now)
        bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * a_second)
        bucket.at = now
        granted = bucket.tokens >= 1.0
        if granted:
            bucket.tokens -= 1.0
        return Allowance(
            granted=granted,
            remaining=floor(bucket.tokens),
            full_s=ceil((most - bucket.tokens) / a_second),
            wait_s=0 if granted else max(1, ceil((1.0 - bucket.tokens) / a_second)),
            per_minute=per_minute,
        )


class Slots:
    """A bound on requests in progress, with a bounded queue; first come, first served.

    Used from the event loop only.

    Args:
        bounds: returns the current limits of requests in progress and waiting.
    """

    def __init__(self, bounds: Callable[[], tuple[int, int]]) -> None:
        self._bounds = bounds
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._at_work = 0

    @property
    def at_work(self) -> int:
        """The number of slots taken."""
        return self._at_work

    async def take(self) -> bool:
        """Take a slot; return whether it had to wait in the queue.

        Raises:
            Overloaded: the queue is full.
        """
        most, most_waiting = self._bounds()
        if self._at_work < most:
            self._at_work += 1
            return False
        if len(self._waiting) >= most_waiting:
            raise Overloaded(f"{self._at_work} requests are in progress and {len(self._waiting)} wait: ask again later")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._forget(turn)
            raise
        return True

    def release(self) -> None:
        """Give a slot back to the longest waiting request."""
        self._at_work -= 1
        most, _ = self._bounds()
        while self._waiting and self._at_work < most:
            turn = self._waiting.popleft()
            if not turn.done():
                self._at_work += 1
                turn.set_result(None)

    def _forget(self, turn: asyncio.Future[None]) -> None:
        """Leave the queue, or return a slot that came too late."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn.done() and not turn.cancelled():
            self.release()
