"""Who a request comes from, by the kinds of token that a configuration takes."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from datetime import datetime
from typing import Final, NamedTuple, Protocol

from context_engine.adapters.identity.bearer import bearer_token
from context_engine.core.models import Authenticated
from context_engine.core.protocols import Clock
from context_engine.errors import NotAuthenticated, TokensUnchecked
from context_engine.settings.new_token import token_hash

logger = logging.getLogger(__name__)

REFUSED: Final = "no token, or one that opens nothing: send a good one as 'Authorization: Bearer TOKEN'"

UNCHECKED: Final = "tokens cannot be checked now: ask again later with the same one"


class ShownToken(NamedTuple):
    """A token that a request carries.

    Attributes:
        token: its bytes.
        sha256: their hash in hexadecimal.
        now: when it was shown.
    """

    token: bytes
    sha256: str
    now: datetime


class TokenKind(Protocol):
    """One kind of token. Safe for many threads; never waits for the network."""

    def caller(self, shown: ShownToken) -> Authenticated | None:
        """Return who shows a token; None where it is no good one of this kind, which is logged where it says more.

        Raises:
            TokensUnchecked: it is of this kind, and what it would be checked with is not there.
        """
        ...

    def problems(self) -> tuple[str, ...]:
        """Return why tokens of this kind cannot be checked now, each in a sentence."""
        ...

    def close(self) -> None:
        """Stop what runs beside it; may be called twice."""
        ...


class TokenAuthenticator:
    """Says who a request comes from; one message refuses whatever opens nothing.

    Args:
        kinds: asked in turn.
        clock: the time.
    """

    def __init__(self, kinds: Sequence[TokenKind], clock: Clock) -> None:
        self._kinds, self._clock = tuple(kinds), clock

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return who calls; see `Authenticator`.

        Raises:
            NotAuthenticated: no token, or one that opens nothing.
            TokensUnchecked: no kind knows it, and one of them cannot tell now.
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
        """Return why some tokens cannot be checked now."""
        return tuple(problem for kind in self._kinds for problem in kind.problems())

    def close(self) -> None:
        """Stop what runs beside it; may be called twice."""
        for kind in self._kinds:
            kind.close()
