"""A service without tokens, for a person at the machine it runs on."""

from __future__ import annotations

from context_engine.core.models import ANYBODY, Authenticated
from context_engine.errors import NotAuthenticated


class NoAuthentication:
    """Lets everybody in as nobody in particular; for loopback alone.

    Args:
        caller: who everybody is.
    """

    def __init__(self, caller: Authenticated = ANYBODY) -> None:
        self._caller = caller

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return the caller; a token that is shown all the same is refused, for it would not be checked.

        Raises:
            NotAuthenticated: there is a token.
        """
        if authorization:
            raise NotAuthenticated("this service was started with --no-auth and checks no token: send none")
        return self._caller

    def problems(self) -> tuple[str, ...]:
        """Return nothing: there is nothing to check."""
        return ()

    def close(self) -> None:
        """Do nothing."""
