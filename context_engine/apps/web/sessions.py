"""Sessions of browsers: a cookie that holds the caller's token, encrypted with a key of the service."""

from __future__ import annotations

import base64
import hashlib
import secrets
import zlib
from collections.abc import Mapping
from http.cookies import CookieError, SimpleCookie
from typing import Final

from cachetools import TTLCache
from cryptography.fernet import Fernet, InvalidToken

from context_engine.core.concurrency.forking import Lock
from context_engine.errors import InvalidRequest

LIFETIME_S: Final = 8 * 3600
"""Seconds after which a person signs in again: a working day."""

_NAME: Final = "context_engine_session"
_MOST_COOKIE: Final = 3_900
"""Bytes; browsers drop a cookie of 4,096 with its name and attributes."""

_MOST_TOKEN: Final = 16_384
_ONCE_S: Final = 300
_BEGUN_S: Final = 600
_MOST_CODES: Final = 100


class Sessions:
    """Makes and reads the cookies. Thread-safe.

    Every request is authenticated anew with the token in its cookie, so a revoked token ends its sessions at once.
    Instances behind one load balancer share a key; without one, a restart ends all sessions.

    Args:
        key: any secret text of at least 32 characters; None: a random one.
        secure: whether browsers reach the service over https; the cookie is then sent over nothing else.
    """

    def __init__(self, key: str | None = None, *, secure: bool = False) -> None:
        digest = hashlib.sha256((key or secrets.token_hex(32)).encode()).digest()
        self._fernet = Fernet(base64.urlsafe_b64encode(digest))
        self._name = f"__Host-{_NAME}" if secure else _NAME
        self._attributes = f"; Path=/; HttpOnly; SameSite=Strict{'; Secure' if secure else ''}"
        self._codes: TTLCache[str, str] = TTLCache(_MOST_CODES, _ONCE_S)
        self._lock = Lock()

    def cookie(self, token: str) -> str:
        """Return the `Set-Cookie` field of a new session.

        Raises:
            InvalidRequest: the token is too long for a cookie.
        """
        sealed = self._sealed(token)
        if len(sealed) > _MOST_COOKIE:
            raise InvalidRequest(
                f"the token has {len(token):,} characters, too many for a browser's cookie: use a shorter one, "
                "for example with fewer claims"
            )
        return f"{self._name}={sealed}; Max-Age={LIFETIME_S}{self._attributes}"

    def ended(self) -> str:
        """Return the `Set-Cookie` field that ends a session."""
        return f"{self._name}=; Max-Age=0{self._attributes}"

    def authorization(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return the Authorization field of the session in a request; None without a valid session."""
        token = self._opened(headers, self._name, LIFETIME_S)
        return None if token is None else f"Bearer {token}"

    def is_sent(self, headers: Mapping[bytes, bytes]) -> bool:
        """Return whether a request carries a session, valid or not."""
        return any(
            part.strip().startswith(f"{self._name}=".encode()) for part in headers.get(b"cookie", b"").split(b";")
        )

    def begun_cookie(self, text: str) -> str:
        """Return the `Set-Cookie` field that remembers a sign-in at an identity provider, for ten minutes.

        It is sent although the provider's page leads back here, unlike the session itself.
        """
        lax = self._attributes.replace("SameSite=Strict", "SameSite=Lax")
        return f"{self._name}_begun={self._sealed(text)}; Max-Age={_BEGUN_S}{lax}"

    def begun(self, headers: Mapping[bytes, bytes]) -> str | None:
        """Return what `begun_cookie` remembered; None if this browser began no sign-in."""
        return self._opened(headers, f"{self._name}_begun", _BEGUN_S)

    def _sealed(self, text: str) -> str:
        return self._fernet.encrypt(zlib.compress(text.encode())).decode()

    def _opened(self, headers: Mapping[bytes, bytes], name: str, lifetime_s: int) -> str | None:
        try:
            morsel = SimpleCookie(headers.get(b"cookie", b"").decode("latin-1")).get(name)
            if morsel is None:
                return None
            packed = self._fernet.decrypt(morsel.value.encode(), ttl=lifetime_s)
            return zlib.decompressobj().decompress(packed, _MOST_TOKEN).decode()
        except (CookieError, InvalidToken, ValueError, zlib.error):
            return None

    def code_for(self, token: str) -> str:
        """Return a code that opens one session with a token, within five minutes."""
        code = secrets.token_urlsafe(32)
        with self._lock:
            self._codes[code] = token
        return code

    def redeem(self, code: str) -> str | None:
        """Return the token of a code, once; None if the code is unknown, used or expired."""
        with self._lock:
            token: str | None = self._codes.pop(code, None)
            return token
