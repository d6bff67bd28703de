"""Authenticate requests by the kinds of token that a configuration accepts, or by none on a local machine."""

from __future__ import annotations

import hmac
import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from context_engine.core.models import ANYBODY, Authenticated
from context_engine.core.protocols import Clock
from context_engine.errors import NotAuthenticated, TokensUnchecked
from context_engine.settings.principals import token_hash

logger = logging.getLogger(__name__)
REFUSED: Final = "no token, or one that opens nothing: send a good one as 'Authorization: Bearer TOKEN'"
UNCHECKED: Final = "tokens cannot be checked now: ask again later with the same one"
_NOT_CHECKED: Final = (
    "this service was started with --no-auth, so it cannot check the token that was sent: send no Authorization "
    "header, or start it without --no-auth ('context-engine token add NAME' makes a token)"
)


class ShownToken(NamedTuple):
    """A token that a request carries; `sha256` is hexadecimal."""

    token: bytes
    sha256: str
    now: datetime


class TokenKind(Protocol):
    """One kind of token. Thread-safe; never waits for the network."""

    def caller(self, shown: ShownToken) -> Authenticated | None:
        """Return the caller who presents a token; None if the token is not valid for this kind. A kind logs its own
        refusals.

        Raises:
            TokensUnchecked: it is of this kind, and cannot be checked now.
        """
        ...

    def problems(self) -> tuple[str, ...]:
        """Return why tokens of this kind cannot be checked now, one sentence each."""
        ...

    def close(self) -> None:
        """Stop background work; may be called twice."""
        ...


class TokenAuthenticator:
    """Authenticates requests by several kinds of token in turn; every refusal has the same message."""

    def __init__(self, kinds: Sequence[TokenKind], clock: Clock) -> None:
        self._kinds, self._clock = tuple(kinds), clock

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return the caller; see `Authenticator`.

        Raises:
            NotAuthenticated: there is no token, or no kind accepts it.
            TokensUnchecked: no kind accepts it, and one of them cannot check it now.
        """
        token = bearer_token(authorization)
        if token is not None:
            shown = ShownToken(token, token_hash(token), self._clock.now())
            unchecked: TokensUnchecked | None = None
            for kind in self._kinds:
                try:
                    caller = kind.caller(shown)
                except TokensUnchecked as error:
                    unchecked = error
                    continue
                if caller is not None:
                    return caller
            if unchecked is not None:
                raise unchecked
            logger.info("a request with a token that opens nothing was refused")
        raise NotAuthenticated(REFUSED)

    def problems(self) -> tuple[str, ...]:
        return tuple(problem for kind in self._kinds for problem in kind.problems())

    def close(self) -> None:
        for kind in self._kinds:
            kind.close()


MOST_BYTES: Final = 16_384
"""Longest header that is examined."""
_BLANK: Final = " \t"


def bearer_token(authorization: str | None) -> bytes | None:
    """Return the bytes of the token in a header; None if there is no token.

    Args:
        authorization: the header's bytes read as Latin-1, as a server gives them; a text with other characters is taken
            as UTF-8.
    """
    if authorization is None or len(authorization) > MOST_BYTES:
        return None
    scheme, _, token = authorization.strip(_BLANK).partition(" ")
    token = token.strip(_BLANK)
    if scheme.lower() != "bearer" or not token:
        return None
    try:
        return token.encode("latin-1")
    except UnicodeEncodeError:
        return token.encode("utf-8", "surrogatepass")


class NoAuthentication:
    """Accepts every request as the same caller; for loopback only."""

    def __init__(self, caller: Authenticated = ANYBODY) -> None:
        self._caller = caller

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return the caller; a token is refused, because it would not be checked.

        Raises:
            NotAuthenticated: there is a token.
        """
        if authorization:
            raise NotAuthenticated(_NOT_CHECKED)
        return self._caller

    def problems(self) -> tuple[str, ...]:
        """Return nothing: there is nothing to check."""
        return ()

    def close(self) -> None:
        """Do nothing."""


class ProcessToken:
    """Authenticates one caller by a token that this process made, for a person at their own machine."""

    def __init__(self, token: str, caller: Authenticated) -> None:
        self._token, self._caller = token.encode(), caller

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return the caller.

        Raises:
            NotAuthenticated: there is no token, or another one.
        """
        token = bearer_token(authorization)
        if token is None or not hmac.compare_digest(token, self._token):
            raise NotAuthenticated(REFUSED)
        return self._caller

    def problems(self) -> tuple[str, ...]:
        """Return nothing: there is nothing to check."""
        return ()

    def close(self) -> None:
        """Do nothing."""
