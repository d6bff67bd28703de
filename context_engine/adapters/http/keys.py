"""The API key: held in one masked object, put on a request at the last moment."""

from __future__ import annotations

import re
from collections.abc import Generator
from hashlib import sha256
from typing import Final, NoReturn

import httpx
from pydantic import SecretStr

from context_engine.errors import ConfigError
from context_engine.secrecy import MASK, keep_secret, redacted

__all__ = ["ApiKey", "redacted"]

_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")


class ApiKey(httpx.Auth):
    """Authorises requests; shows itself as a mask and can't be pickled.

    Raises:
        ConfigError: there is no key, or one that cannot stand in a header.
    """

    __slots__ = ("_secret",)

    def __init__(self, secret: SecretStr | None) -> None:
        if secret is None:
            raise ConfigError("the connection has no api_key: give it a dataset key ('dataset-…') of Dify")
        if not _SENDABLE.fullmatch(secret.get_secret_value()):
            raise ConfigError("api_key holds white space or characters that cannot be sent: copy it from Dify again")
        self._secret = secret
        keep_secret(secret.get_secret_value())

    def auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Put the key on a request."""
        request.headers["Authorization"] = f"Bearer {self._secret.get_secret_value()}"
        yield request

    @property
    def fingerprint(self) -> str:
        """What tells keys apart without being one; for dictionary keys in memory."""
        return sha256(self._secret.get_secret_value().encode()).hexdigest()[:16]

    def hide(self, text: str) -> str:
        """Return a text without this key in it."""
        return redacted(text.replace(self._secret.get_secret_value(), MASK))

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiKey) and self._secret == other._secret

    def __hash__(self) -> int:
        return hash(self._secret)

    def __repr__(self) -> str:
        return f"ApiKey({MASK})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled: read it from its connection again")
