"""Access tokens by the client credentials grant of OAuth 2.0 (RFC 6749, section 4.4), kept until shortly before they
expire.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Final, NamedTuple
from urllib.parse import quote_plus, urlencode, urlsplit

import httpx
from pydantic import SecretStr

from context_engine.adapters.http.api import Meaning, refusal
from context_engine.adapters.http.deadline import TimeLimit
from context_engine.adapters.http.keys import BASIC, BEARER, ApiKey, user_pair
from context_engine.adapters.http.transport import HttpAnswer, HttpCall, send
from context_engine.core.protocols import Clock
from context_engine.errors import ConfigError, SourceAuthError, SourceProtocolError
from context_engine.settings.connections import Connection

_FORM: Final = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
_REFUSED: Final = Meaning(
    SourceAuthError,
    "{name} gives no access token ({status})",
    "correct client_id, client_secret and token_scope of the connection",
)
_STATUSES: Final = {400: _REFUSED, 401: _REFUSED, 403: _REFUSED}
_MAX_BYTES: Final = 256 * 1024
_USED_SHARE: Final = 0.9
_LIFETIME_S: Final = 300.0
"""Of a token whose server does not say when it expires."""


class _Kept(NamedTuple):
    """A token, whose it is, and until when it is used (monotonic seconds)."""

    owner: tuple[str | None, str | None, SecretStr | None, str | None]
    key: ApiKey
    until: float


class AccessTokens:
    """The access token of one connection. Thread-safe: threads that need a new one wait for the same."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._kept: _Kept | None = None

    def key(self, connection: Connection, client: httpx.Client, left: Callable[[], float]) -> ApiKey:
        """Return a token for calls over a connection that has a `token_url`.

        Args:
            client: reaches the token server.
            left: returns the seconds until the token is useless.

        Raises:
            SourceError: the token server gave none.
        """
        owner = (connection.token_url, connection.client_id, connection.client_secret, connection.token_scope)
        with self._lock:
            if self._kept is None or self._kept.owner != owner or self._clock.monotonic() >= self._kept.until:
                begun = self._clock.monotonic()
                key, lifetime_s = _read(self._fetch(connection, client, left))
                self._kept = _Kept(owner, key, begun + _USED_SHARE * lifetime_s)
            return self._kept.key

    def drop(self) -> None:
        """Fetch another token for the next call: this one was refused."""
        with self._lock:
            self._kept = None

    def _fetch(self, connection: Connection, client: httpx.Client, left: Callable[[], float]) -> HttpAnswer:
        url = connection.token_url or ""
        name = f"the token server {urlsplit(url).hostname}"
        root, _, path = url.rpartition("/")
        form = {"grant_type": "client_credentials"}
        form |= {} if connection.token_scope is None else {"scope": connection.token_scope}
        call = HttpCall("POST", path, urlencode(form), _FORM)
        limit = TimeLimit(connection.timeout_s, left)
        answer = send(
            client, root, call, ApiKey(client_pair(connection), BASIC), limit=limit, max_bytes=_MAX_BYTES, name=name
        )
        if answer.status != 200:
            raise refusal(answer, _STATUSES, name=name, now=self._clock.now())
        return answer


def client_pair(connection: Connection) -> SecretStr:
    """Return the client's name and secret as a key of HTTP Basic; each is form-encoded first (section 2.3.1)."""
    secret = "" if connection.client_secret is None else connection.client_secret.get_secret_value()
    return user_pair(quote_plus(connection.client_id or ""), SecretStr(quote_plus(secret)))


def _read(answer: HttpAnswer) -> tuple[ApiKey, float]:
    """Return a token and its lifetime in seconds."""
    try:
        value = answer.json()
        lifetime_s = float(value.get("expires_in") or _LIFETIME_S)
        return ApiKey(SecretStr(value["access_token"]), BEARER), max(lifetime_s, 0.0)
    except (AttributeError, KeyError, TypeError, ValueError, ConfigError):
        pass  # raised below, because these errors hold the answer
    raise SourceProtocolError("the token server gave no access token: check that token_url is its token endpoint")
