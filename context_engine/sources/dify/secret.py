"""The API key: held in one masked object, put on a request at the last moment, kept out of every log."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator
from hashlib import sha256
from typing import Any, Final, NoReturn

import httpx
from pydantic import SecretStr

from context_engine.errors import ConfigError
from context_engine.settings.connections import MASK

__all__ = ["ApiKey", "quiet_cookies", "redacted"]

_KEY_LIKE: Final = re.compile(r"\b(?:dataset|app)-[A-Za-z0-9_-]{8,}|(?<=[Bb]earer )\S+|(?<=://)[^/\s@]+(?=@)")
_SENDABLE: Final = re.compile(r"[\x21-\x7e]+")
_COOKIE: Final = re.compile(r"(set-cookie', b')[^']*|(set-cookie', b\")[^\"]*", re.IGNORECASE)


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
        secret = self._secret.get_secret_value()
        return redacted(text.replace(secret, MASK) if secret else text)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ApiKey) and self._secret == other._secret

    def __hash__(self) -> int:
        return hash(self._secret)

    def __repr__(self) -> str:
        return f"ApiKey({MASK})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key is not pickled: read it from its connection again")


def redacted(text: str) -> str:
    """Return a text in which whatever looks like a Dify key, a bearer token or a URL's user is masked."""
    return _KEY_LIKE.sub(MASK, text)


class _NoCookies(logging.Filter):
    """The transport logs response headers at DEBUG, and one fork of Dify sends the key back as a cookie."""

    def filter(self, record: logging.LogRecord) -> bool:
        text = record.getMessage()
        if "set-cookie" in text.casefold() or "bearer" in text.casefold():
            text = _COOKIE.sub(lambda found: (found[1] or found[2]) + MASK, text)
            record.msg, record.args = redacted(text), ()
        return True


_NO_COOKIES: Final[Any] = _NoCookies()


def quiet_cookies() -> None:
    """Mask cookies in the transport's debug log; may be called again."""
    for name in ("httpcore.http11", "httpcore.http2", "httpcore.proxy"):
        logging.getLogger(name).addFilter(_NO_COOKIES)
