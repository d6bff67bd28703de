"""Tokens that the deployment itself knows: from the environment, its token store and `access.yaml`."""

from __future__ import annotations

import hmac
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from context_engine.adapters.identity.authenticator import UNCHECKED, ShownToken
from context_engine.core.concurrency.calls import EXECUTOR, Busy
from context_engine.core.models import API_PRINCIPAL, Authenticated
from context_engine.errors import ConfigError, TokensUnchecked
from context_engine.settings.principals import Principals, id_in, token_hash
from context_engine.settings.token_store import StoredToken, TokenStore

logger = logging.getLogger(__name__)
_USED_EVERY: Final = timedelta(minutes=1)
_MOST_NOTED: Final = 10_000


class ApiToken:
    """The token of the environment.

    Without an `access.yaml` in force, its bearer is an operator, like everybody at the command line. With one, the
    principal `api` has the rights that the file gives it, by default those of a plain caller.
    """

    def __init__(self, token: str, principals: Principals) -> None:
        self._sha256 = token_hash(token)
        caller = principals.caller(API_PRINCIPAL.id, API_PRINCIPAL.id)
        assert caller is not None  # this principal always exists
        self._caller = caller if principals.in_force else replace(caller, operator=True)

    def caller(self, shown: ShownToken) -> Authenticated | None:
        """Return the principal `api` if the token is shown."""
        return self._caller if hmac.compare_digest(self._sha256, shown.sha256) else None

    def problems(self) -> tuple[str, ...]:
        """Return nothing: it can always be checked."""
        return ()

    def close(self) -> None:
        """Do nothing."""


class FileTokens:
    """The tokens of `access.yaml`."""

    def __init__(self, principals: Principals) -> None:
        self._principals = principals

    def caller(self, shown: ShownToken) -> Authenticated | None:
        """Return the principal that has the token."""
        return self._principals.holder(shown.sha256, now=shown.now)

    def problems(self) -> tuple[str, ...]:
        """Return nothing: they can always be checked."""
        return ()

    def close(self) -> None:
        """Do nothing."""


class StoredTokens:
    """The tokens made by `context-engine token add`; their use is recorded in the background.

    A token of a principal that no longer exists opens nothing.
    """

    def __init__(self, store: TokenStore, principals: Principals) -> None:
        self._store, self._principals = store, principals
        self._noted: dict[str, datetime] = {}

    def caller(self, shown: ShownToken) -> Authenticated | None:
        """Return the principal of a token that is neither expired nor revoked.

        Raises:
            TokensUnchecked: the store cannot be read.
        """
        token_id = id_in(shown.token)
        if token_id is None:
            return None
        try:
            token = self._store.matching(token_id, shown.sha256)
        except ConfigError as error:
            logger.error("tokens cannot be checked: %s", error)
            raise TokensUnchecked(UNCHECKED) from error
        if token is None:
            return None
        caller = self._principals.caller(token.principal, token.id)
        if caller is None or not token.opens(shown.now):
            logger.warning("token %s was refused: %s", token.id, _why(token, shown.now))
            return None
        self._note(token.id, shown.now)
        return caller

    def problems(self) -> tuple[str, ...]:
        """Return the reason if the store cannot be read."""
        try:
            self._store.matching("", "")
        except ConfigError as error:
            return (str(error),)
        return ()

    def close(self) -> None:
        self._store.close()

    def _note(self, token_id: str, now: datetime) -> None:
        """Record the use at most once a minute; a process that ends may lose it."""
        before = self._noted.get(token_id)
        if before is not None and before <= now < before + _USED_EVERY:
            return
        if len(self._noted) >= _MOST_NOTED:
            self._noted.clear()
        self._noted[token_id] = now
        try:
            EXECUTOR.submit(partial(self._noted_in_store, token_id, now), "token use")
        except Busy:
            pass

    def _noted_in_store(self, token_id: str, now: datetime) -> None:
        try:
            self._store.note_used(token_id, now)
        except ConfigError as error:
            logger.warning("the use of token %s could not be noted: %s", token_id, error)


def _why(token: StoredToken, now: datetime) -> str:
    if token.is_revoked(now):
        return "it is revoked"
    if token.expires is not None and token.expires <= now:
        return "it is expired"
    return f"access.yaml names no principal {token.principal!r}"
