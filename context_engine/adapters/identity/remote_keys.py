"""The public keys of an OpenID Connect provider (RFC 7517), fetched in the background: no request waits for them."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from jwt.algorithms import ECAlgorithm, OKPAlgorithm, RSAAlgorithm
from jwt.exceptions import InvalidKeyError

from context_engine.adapters.http import ApiClient, HttpCall
from context_engine.adapters.http.api import Api
from context_engine.adapters.http.client import PHASES
from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.protocols import Clock
from context_engine.errors import ContextEngineError
from context_engine.settings.connections import Connection, sends_unencrypted

_API: Final = Api(max_bytes=1024 * 1024)
_CLOSE_S: Final = 1.0
_MOST_DOUBLINGS: Final = 16


def fetch_keys(connection: Connection, path: str, clock: Clock) -> Any:
    """Fetch the document with the keys of an identity provider.

    Args:
        path: the document's path below the connection's base URL.

    Raises:
        ContextEngineError: the server gave no valid answer, or the connection is not encrypted.
    """
    client = ApiClient(_API, lambda: connection, clock)
    try:
        if sends_unencrypted(connection.base_url):
            raise ContextEngineError("the keys are not fetched in plain text: use https")
        due = clock.monotonic() + PHASES * connection.timeout_s
        return client.call(HttpCall("GET", path), client.access(), lambda: due - clock.monotonic()).json()
    finally:
        client.close()


class RemoteKeys:
    """Keeps the keys of a provider fresh in a background thread. Thread-safe.

    The last keys stay if the provider cannot be reached, or answers without a usable key.

    Args:
        fetch: returns the provider's document.
        refresh_s: seconds between two fetches.
        min_refresh_s: shortest time between two fetches, also on demand.
    """

    def __init__(self, fetch: Callable[[], Any], *, refresh_s: float, min_refresh_s: float) -> None:
        self._fetch, self._refresh_s, self._min_refresh_s = fetch, refresh_s, min_refresh_s
        self._current: KeySet | None = None
        self._document: Any = None
        self._problem = "they were not fetched yet"
        self._closed = False
        self.forget()
        forget_in_child(self)
        self._start()

    def forget(self) -> None:
        """Drop the thread, which does not exist in a forked child; the keys stay until an unknown key is needed."""
        self._changed = threading.Condition()
        self._thread: threading.Thread | None = None
        self._wanted = False

    @property
    def current(self) -> KeySet | None:
        """The last keys, the same object as long as they are unchanged; None if none were ever fetched."""
        return self._current

    @property
    def problem(self) -> str:
        """Why the last fetch failed; "" if it succeeded."""
        return self._problem

    def want(self) -> None:
        """Request a fetch as soon as one is allowed, because a token names an unknown key."""
        with self._changed:
            self._wanted = True
            self._changed.notify_all()
        self._start()

    def close(self) -> None:
        """End the thread; may be called twice. A call to the provider is not interrupted."""
        with self._changed:
            self._closed, thread = True, self._thread
            self._changed.notify_all()
        if thread is not None:
            thread.join(_CLOSE_S)

    def _start(self) -> None:
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="identity keys", daemon=True)
                self._thread.start()

    def _run(self) -> None:
        failures = 0
        while True:
            with self._changed:
                if self._closed:
                    return
                self._wanted = False
            failures = 0 if self._refresh() else failures + 1
            self._wait(self._pause(failures))

    def _pause(self, failures: int) -> float:
        """Return the seconds to the next fetch: doubled after each failure, short as long as there are no keys."""
        if self._current is None:
            return self._min_refresh_s
        soon = self._min_refresh_s * 2.0 ** min(failures - 1, _MOST_DOUBLINGS) if failures else self._refresh_s
        return min(soon, self._refresh_s)

    def _wait(self, seconds: float) -> None:
        """Wait; if a fetch is requested, only until it is allowed."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed, min(self._min_refresh_s, seconds))
            left = seconds - self._min_refresh_s
            self._changed.wait_for(lambda: self._closed or self._wanted, max(left, 0.0))

    def _refresh(self) -> bool:
        try:
            document = self._fetch()
            if document != self._document:
                self._current, self._document = read_key_set(document), document
        except Exception as error:  # noqa: BLE001  the thread must go on, and the keys stay
            known = isinstance(error, ContextEngineError | ValueError)
            self._problem = str(error) if known else f"failed with {type(error).__name__}"
            kept = "the ones fetched before stay" if self._current else "there are none yet"
            logger.warning("the keys of the identity provider could not be fetched (%s): %s", kept, self._problem)
            return False
        self._problem = ""
        return True


logger = logging.getLogger(__name__)
_MOST_KEYS: Final = 200
_LEAST_RSA_BITS: Final = 2048

_FAMILIES: Final[Mapping[str, tuple[str, ...]]] = {
    **dict.fromkeys(("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"), ("RSA",)),
    "ES256": ("P-256",),
    "ES384": ("P-384",),
    "ES512": ("P-521",),
    "EdDSA": ("Ed25519", "Ed448"),
}
"""The key that an algorithm needs: an RSA key, or one on a curve."""
_READERS: Final[Mapping[str, Any]] = {"RSA": RSAAlgorithm, "EC": ECAlgorithm, "OKP": OKPAlgorithm}


class _PublicKey(NamedTuple):
    """A public key and its one algorithm, None if the provider does not say."""

    public: Any
    algorithm: str | None


class KeySet:
    """Public keys by their id, and RSA or the curve."""

    def __init__(self, keys: Mapping[tuple[str, str], _PublicKey]) -> None:
        self._keys = dict(keys)

    def __len__(self) -> int:
        return len(self._keys)

    def find(self, kid: str, algorithm: str) -> Any:
        """Return the public key with an id that fits an algorithm, None if there is none."""
        for family in _FAMILIES[algorithm]:
            key = self._keys.get((kid, family))
            if key is not None and key.algorithm in (None, algorithm):
                return key.public
        return None


def read_key_set(document: Any) -> KeySet:
    """Return the keys of a document that can check a signature; others are left out.

    Raises:
        ValueError: it is not a key set, or has no usable key.
    """
    rows = document.get("keys") if isinstance(document, Mapping) else None
    if not isinstance(rows, list):
        raise ValueError("it is not a JSON Web Key Set: check that the address is the provider's jwks_uri")
    keys: dict[tuple[str, str], _PublicKey] = {}
    for row in rows[:_MOST_KEYS]:
        placed = _read(row) if isinstance(row, Mapping) else None
        if placed is not None:
            keys.setdefault(*placed)
    if not keys:
        raise ValueError(f"none of its {len(rows)} keys can check a signature of an accepted kind")
    return KeySet(keys)


def _read(row: Mapping[str, Any]) -> tuple[tuple[str, str], _PublicKey] | None:
    """Return a key with its place; None if it is not a public key for signatures, has no id, or is too short."""
    kid, kind, operations = row.get("kid"), row.get("kty"), row.get("key_ops", ["verify"])
    verifies = row.get("use", "sig") == "sig" and isinstance(operations, list) and "verify" in operations
    if not isinstance(kid, str) or not isinstance(kind, str) or kind not in _READERS or not verifies or "d" in row:
        return None
    family = "RSA" if kind == "RSA" else str(row.get("crv"))
    algorithm = row.get("alg")
    if not any(family in families for families in _FAMILIES.values()):
        return None
    if algorithm is not None and family not in _FAMILIES.get(str(algorithm), ()):
        return None
    try:
        public = _READERS[kind].from_jwk(json.dumps(dict(row)))
    except (InvalidKeyError, ValueError, TypeError, KeyError, AttributeError) as error:
        logger.warning("a key of the provider cannot be read: %s (kid %.80r)", type(error).__name__, kid)
        return None
    if family == "RSA" and public.key_size < _LEAST_RSA_BITS:
        logger.warning("a key of the provider is too short: %d bits (kid %.80r)", public.key_size, kid)
        return None
    return (kid, family), _PublicKey(public, algorithm)
