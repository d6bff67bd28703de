"""The rate limit of a principal."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, floor
from typing import Final, NamedTuple, Protocol

from cachetools import Cache, LRUCache

from context_engine.core.concurrency.forking import Lock

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


class RateSettings(Protocol):
    """The settings of the rate limit."""

    @property
    def server_rate_per_minute(self) -> int:
        """Requests a minute; 0: no limit."""
        ...

    @property
    def server_rate_burst(self) -> int:
        """Requests at once."""
        ...


class Rates(Protocol):
    """The rate limits of all principals, in this process or for several."""

    def take(self, principal: str, settings: RateSettings) -> Allowance | None:
        """Take one request from a principal's bucket; None if there is no limit."""
        ...

    def least(self, settings: RateSettings) -> int | None:
        """Return how many requests are left at once to the principal with the fewest; None if there is no limit."""
        ...


class _Limit(NamedTuple):
    server_rate_per_minute: int
    server_rate_burst: int


class SharedRates:
    """The limits that several processes count together; `Rates`.

    If the counting process has been killed, nothing is counted: this one answers its last requests and stops.

    Args:
        counted: a proxy of the `RateLimits` of another process.
    """

    def __init__(self, counted: Rates) -> None:
        self._counted = counted

    def take(self, principal: str, settings: RateSettings) -> Allowance | None:
        """Take one request from a principal's bucket; None if there is no limit."""
        if settings.server_rate_per_minute:
            with suppress(OSError, EOFError):
                return self._counted.take(principal, _of(settings))
        return None

    def least(self, settings: RateSettings) -> int | None:
        """Return how many requests are left at once to the principal with the fewest; None if there is no limit."""
        if settings.server_rate_per_minute:
            with suppress(OSError, EOFError):
                return self._counted.least(_of(settings))
        return None


def _of(settings: RateSettings) -> _Limit:
    """Return the part of the settings that is worth sending."""
    return _Limit(settings.server_rate_per_minute, settings.server_rate_burst)


@dataclass(slots=True)
class _Bucket:
    tokens: float
    at: float


class RateLimits:
    """Token buckets of all principals; `Rates`. Thread-safe.

    Args:
        monotonic: a monotonic clock in seconds.
    """

    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic, self._lock = monotonic, Lock()
        self._buckets: LRUCache[str, _Bucket] = LRUCache(_MOST_PRINCIPALS)

    def take(self, principal: str, settings: RateSettings) -> Allowance | None:
        """Take one request from a principal's bucket; None if there is no limit.

        A bucket holds `server_rate_burst` requests and fills with `server_rate_per_minute` / 60 a second.
        """
        per_minute, most = settings.server_rate_per_minute, float(settings.server_rate_burst)
        if not per_minute:
            return None
        a_second = per_minute / _MINUTE_S
        with self._lock:
            now = self._monotonic()
            bucket = self._buckets.get(principal)
            if bucket is None:
                bucket = self._buckets[principal] = _Bucket(most, now)
            bucket.tokens = min(most, bucket.tokens + (now - bucket.at) * a_second)
            bucket.at = now
            granted = bucket.tokens >= 1.0
            if granted:
                bucket.tokens -= 1.0
            tokens = bucket.tokens
        return Allowance(
            granted=granted,
            remaining=floor(tokens),
            full_s=ceil((most - tokens) / a_second),
            wait_s=0 if granted else max(1, ceil((1.0 - tokens) / a_second)),
            per_minute=per_minute,
        )

    def least(self, settings: RateSettings) -> int | None:
        """Return how many requests are left at once to the principal with the fewest; None if there is no limit."""
        per_minute, most = settings.server_rate_per_minute, float(settings.server_rate_burst)
        if not per_minute:
            return None
        now, a_second = self._monotonic(), per_minute / _MINUTE_S
        with self._lock:
            buckets = [Cache.__getitem__(self._buckets, principal) for principal in self._buckets]  # counts as no use
            left = [bucket.tokens + (now - bucket.at) * a_second for bucket in buckets]
        return floor(min([most, *left]))
