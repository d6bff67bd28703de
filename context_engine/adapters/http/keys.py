"""The API key, kept in one masked object and added to a request at the last moment."""

from __future__ import annotations

import base64
import re
from collections.abc import Generator
from dataclasses import dataclass
from hashlib import sha256
from typing import Final, NamedTuple, NoReturn

import httpx
from pydantic import SecretStr

from context_engine.errors import ConfigError
from context_engine.secrecy import MASK, keep_secret, redacted
from context_engine.settings.connections import Connection

_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")


class KeyHeader(NamedTuple):
    """The header in which a server expects the key, and the word before it."""

    name: str
    scheme: str = ""


BEARER: Final = KeyHeader("Authorization", "Bearer")
BASIC: Final = KeyHeader("Authorization", "Basic")


def user_pair(user: str, password: SecretStr) -> SecretStr:
    """Return a user's name and password as a key of HTTP Basic (RFC 7617)."""
    return SecretStr(base64.b64encode(f"{user}:{password.get_secret_value()}".encode()).decode())


class ApiKey(httpx.Auth):
    """Authorises requests; shown masked, and cannot be pickled.

    Raises:
        ConfigError: the key contains characters that a header cannot carry.
    """

    __slots__ = ("_header", "_secret")

    def __init__(self, secret: SecretStr, header: KeyHeader = BEARER) -> None:
        if not _SENDABLE.fullmatch(secret.get_secret_value()):
            raise ConfigError(
                "api_key holds white space or characters that cannot be sent: copy it from its server again"
            )
        self._secret, self._header = secret, header
        keep_secret(secret.get_secret_value())

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Put the key on a request."""
        request.headers[self._header.name] = f"{self._header.scheme} {self._secret.get_secret_value()}".lstrip()
        yield request

    @property
    def fingerprint(self) -> str:
        """Tells keys apart without revealing them; for dictionary keys in memory."""
        return sha256(self._secret.get_secret_value().encode()).hexdigest()[:16]

    def hide(self, text: str) -> str:
        return redacted(text.replace(self._secret.get_secret_value(), MASK))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiKey) and self._secret == other._secret

    def __hash__(self) -> int:
        return hash(self._secret)

    def __repr__(self) -> str:
        return f"ApiKey({MASK})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled: read it from its connection again")


@dataclass(slots=True)
class Access:
    """A connection as read for one search or question; read again when its key is refused.

    Attributes:
        key: None if the server needs none.
        since: monotonic seconds when it was read.
    """

    connection: Connection
    key: ApiKey | None
    since: float

    @property
    def server(self) -> str:
        """The base URL without its version."""
        return self.connection.base_url.removesuffix("/v1")

    @property
    def limit(self) -> int | None:
        """Calls a minute that this process may make."""
        rate = self.connection.rate_per_minute
        return None if rate is None else max(int(rate * self.connection.rate_share), 1)

    @property
    def fingerprint(self) -> str:
        """The key's; empty without a key."""
        return "" if self.key is None else self.key.fingerprint
