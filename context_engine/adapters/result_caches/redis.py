"""Kept results in Redis, shared by several processes, sealed with a key that Redis does not have.

Each value is encrypted and authenticated (ChaCha20-Poly1305, RFC 8439) together with its name, and each name is a keyed
hash. Who can read Redis learns neither questions nor texts. Who can write to it can delete answers, but neither make
one, nor change one, nor give one to another question or caller.
"""

from __future__ import annotations

import hmac
import json
import logging
import secrets
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import parse_qsl, urlsplit

from context_engine.audit.record.parts import load_result, save_result
from context_engine.core.concurrency.calls import Breaker, DeadlineCaller
from context_engine.core.models import Classification, KeptSearch, WithheldChunk
from context_engine.core.protocols import Clock
from context_engine.errors import ConfigError, InvalidRequest, MissingExtra, StoreError
from context_engine.settings.environment_secrets import CACHE_URL

if TYPE_CHECKING:
    from redis import Redis

logger = logging.getLogger(__name__)
T = TypeVar("T")
_SCHEMES: Final = ("redis", "rediss", "unix")
_OPTIONS: Final = frozenset({"db", "ssl_ca_certs", "ssl_certfile", "ssl_keyfile"})
_TIMEOUT_S: Final = 0.05
_SOCKET_S: Final = 1.0  # a call that nobody waits for any more ends then
_MOST_FAILURES: Final = 3  # in a row
_PAUSE_S: Final = 30.0
_MOST_CONNECTIONS: Final = 256
_MOST_BYTES: Final = 2 * 2**20  # of a sealed value
_MOST_PLAIN: Final = 64 * 2**20
_LEVEL: Final = 1
_AT_ONCE: Final = 1000  # names that one call looks at
_NONCE_BYTES: Final = 12
_PREFIX: Final = "context-engine:answer:"
_NO_ADDRESS: Final = "is not a valid address: write redis://USER:PASSWORD@HOST:PORT/DB"
_NEEDS: Final = "the cache of answers in Redis"


class RedisCache:
    """Keeps results in Redis; a `ResultCache`. If Redis fails or is slow, it finds and keeps nothing.

    Args:
        client: see `connected`.
        secret: at least 32 random bytes, the same in all processes that share results.
        namespace: processes with different ones share nothing.
        timeout_s: the longest that a search waits for one call.
    """

    def __init__(
        self, client: Redis, secret: bytes, clock: Clock, *, namespace: str = "", timeout_s: float = _TIMEOUT_S
    ) -> None:
        from redis import RedisError

        self._failure = RedisError
        self._client, self._clock, self._timeout_s = client, clock, timeout_s
        self._seal = _Seal(secret, namespace)
        self._caller = DeadlineCaller("Redis", "cache", clock.monotonic, StoreError)
        self._breaker, self._warned = Breaker(_MOST_FAILURES, _PAUSE_S), False

    def get(self, key: str) -> KeptSearch | None:
        """Return the result of a key; a value that was not sealed for it by this key is ignored."""
        name = self._seal.name(key)
        sealed: Any = self._called(lambda: self._client.getrange(name, 0, _MOST_BYTES))
        if not sealed:
            return None
        try:
            return _unpacked(self._seal.opened(name, sealed))
        except (StoreError, InvalidRequest, ValueError, KeyError, TypeError, zlib.error) as error:
            if not self._warned:
                logger.warning("a value of the cache in Redis is ignored, as others may be: %s", type(error).__name__)
            self._warned = True
            return None

    def put(self, key: str, kept: KeptSearch) -> None:
        """Keep a result until its time is over, unless it is larger than 2 MB."""
        seconds = (kept.until - self._clock.now()).total_seconds()
        name = self._seal.name(key)
        sealed = self._seal.sealed(name, _packed(kept))
        if seconds > 0 and len(sealed) <= _MOST_BYTES:
            self._called(lambda: self._client.set(name, sealed, px=max(1, int(seconds * 1000))))

    def check(self) -> None:
        """Write and read a value.

        Raises:
            StoreError: Redis cannot be reached, refuses, or has no room.
        """
        name = self._seal.name("check")
        try:
            self._client.set(name, b"", px=1000)
            self._client.getrange(name, 0, 0)
        except (self._failure, OSError) as error:
            raise StoreError(
                f"Redis fails with {type(error).__name__}: check that it runs, {CACHE_URL}, and its room for answers "
                "(maxmemory with the policy allkeys-lru)"
            ) from None

    def drop(self) -> int:
        """Delete all answers of this database, also those of other processes, and return their number.

        Raises:
            StoreError: Redis failed or refused.
        """
        try:
            return sum(int(self._client.unlink(name)) for name in self._client.scan_iter(f"{_PREFIX}*", _AT_ONCE))
        except (self._failure, OSError) as error:
            raise StoreError(f"the answers kept in Redis could not be deleted ({type(error).__name__})") from None

    def close(self) -> None:
        """Close the connections; a later call opens others."""
        self._client.close()

    def _called(self, call: Callable[[], T]) -> T | None:
        """Return what Redis answers; None if it fails, is too slow, or has failed several times just now."""
        if self._breaker.wait_s(self._clock.monotonic()) > 0:
            return None
        try:
            answer = self._caller.call(call, self._timeout_s, nothing="nothing")
        except StoreError as error:
            self._note(error)
            return None
        self._note(None)
        return answer

    def _note(self, error: StoreError | None) -> None:
        was_open = self._breaker.is_open
        self._breaker.note(self._clock.monotonic(), failed=error is not None)
        if self._breaker.is_open and not was_open:
            logger.warning(
                "the cache in Redis (%s) is not used for now, so processes share no answers: %s", CACHE_URL, error
            )
        if was_open and not self._breaker.is_open:
            logger.warning("the cache in Redis is used again")


class _Seal:
    """Encrypts values for their names. The keys are derived from the secret by HMAC-SHA256 (RFC 2104)."""

    def __init__(self, secret: bytes, namespace: str) -> None:
        try:
            from cryptography.exceptions import InvalidTag
            from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        except ImportError:
            raise MissingExtra(_NEEDS, "redis") from None
        self._invalid = InvalidTag
        self._cipher = ChaCha20Poly1305(hmac.digest(secret, b"context-engine cache values", "sha256"))
        self._names = hmac.digest(secret, b"context-engine cache names " + namespace.encode(), "sha256")

    def name(self, key: str) -> str:
        """Return the name of a key in Redis."""
        return _PREFIX + hmac.new(self._names, key.encode(), "sha256").hexdigest()

    def sealed(self, name: str, data: bytes) -> bytes:
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, data, name.encode())

    def opened(self, name: str, sealed: bytes) -> bytes:
        """Return the decrypted content.

        Raises:
            StoreError: it was not sealed by this key for this name.
        """
        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (self._invalid, ValueError):
            raise StoreError("it was not sealed by this key for this name") from None


def _packed(kept: KeptSearch) -> bytes:
    saved = {
        "result": save_result(kept.result, code_version=""),
        "recalled": [chunk.recalled for chunk in kept.result.chunks],
        "withheld": [list(chunk) for chunk in kept.withheld],
        "until": kept.until.isoformat(),
    }
    return zlib.compress(json.dumps(saved, ensure_ascii=False).encode("utf-8", "surrogatepass"), _LEVEL)


def _unpacked(data: bytes) -> KeptSearch:
    """Return what was packed; the relevance of stage 1 stands beside the result, because no record holds it."""
    saved = json.loads(zlib.decompressobj().decompress(data, _MOST_PLAIN).decode("utf-8", "surrogatepass"))
    result = load_result(saved["result"])
    pairs = zip(result.chunks, saved["recalled"], strict=True)
    return KeptSearch(
        replace(result, chunks=tuple(replace(chunk, recalled=recalled) for chunk, recalled in pairs)),
        tuple(WithheldChunk(source, chunk, Classification(name)) for source, chunk, name in saved["withheld"]),
        datetime.fromisoformat(saved["until"]),
    )


def connected(url: str) -> Redis:
    """Return a client, which connects at its first call and never repeats one.

    Args:
        url: `redis://USER:PASSWORD@HOST:PORT/DB`, `rediss://...` for TLS, or `unix:///run/redis.sock`.

    Raises:
        ConfigError: the address cannot be used; the message does not repeat it.
        MissingExtra: the extra `redis` is not installed.
    """
    try:
        from redis import Redis
        from redis.backoff import NoBackoff
        from redis.retry import Retry
    except ImportError:
        raise MissingExtra(_NEEDS, "redis") from None
    try:
        parts = urlsplit(url)
        unknown = sorted({name for name, _ in parse_qsl(parts.query, keep_blank_values=True)} - _OPTIONS)
    except ValueError:
        raise ConfigError(_NO_ADDRESS, key=CACHE_URL) from None
    if parts.scheme not in _SCHEMES:
        raise ConfigError(f"must begin with one of {', '.join(f'{scheme}://' for scheme in _SCHEMES)}", key=CACHE_URL)
    if unknown and "@" in parts.query:
        raise ConfigError(f"{_NO_ADDRESS}; percent-encode the password, '?' as %3F", key=CACHE_URL)
    if unknown:
        raise ConfigError(
            f"has the option {unknown[0]!r}: only {', '.join(sorted(_OPTIONS))} can be set", key=CACHE_URL
        )
    try:
        return Redis.from_url(
            url,
            socket_timeout=_SOCKET_S,
            socket_connect_timeout=_SOCKET_S,
            retry=Retry(NoBackoff(), 0),
            max_connections=_MOST_CONNECTIONS,
        )
    except ValueError:
        raise ConfigError(_NO_ADDRESS, key=CACHE_URL) from None
