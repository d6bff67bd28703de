"""Tokens that the deployment itself knows: of the environment, of its store, of `access.yaml`."""

from __future__ import annotations

import hmac
import logging
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Final

from context_engine.adapters.identity.authenticator import UNCHECKED, ShownToken
from context_engine.core.concurrency.executor import EXECUTOR, Busy
from context_engine.core.models import API_PRINCIPAL, Authenticated
from context_engine.errors import ConfigError, TokensUnchecked
from context_engine.settings.principals import Principals, id_in, token_hash
from context_engine.settings.token_store import StoredToken, TokenStore

logger = logging.getLogger(__name__)

_USED_EVERY: Final = timedelta(minutes=1)
_MOST_NOTED: Final = 10_000


class ApiToken:
    """The token of the environment.

    Where no `access.yaml` is in force, whoever has it is an operator, as everybody is at the command line. Where there
    is one, the principal `api` is what the file says, and without an entry of its own no more than a caller.

    Args:
        token: the token.
        principals: those of the configuration.
    """

    def __init__(self, token: str, principals: Principals) -> None:
        self._sha256 = token_hash(token)
        caller = principals.caller(API_PRINCIPAL.id, API_PRINCIPAL.id)
        assert caller is not None  # that principal is always there
        self._caller = caller if principals.in_force else replace(caller, operator=True)

    def caller(self, shown: ShownToken) -> Authenticated | None:
        """Return the principal `api` where the token is shown."""
        return self._caller if hmac.compare_digest(self._sha256, shown.sha256) else None

    def problems(self) -> tuple[str, ...]:
        """Return nothing: it can always be checked."""
        return ()

    def close(self) -> None:
        """Do nothing."""


class FileTokens:
    """The tokens of `access.yaml`.

    Args:
        principals: those of the configuration.
    """

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
    """The tokens that `context-engine token add` made; when one was used is noted beside the request.

    Args:
        store: of the deployment.
        principals: those of the configuration; a token of one that is not there any more opens nothing.
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
            held = self._store.matching(token_id, shown.sha256)
        except ConfigError as error:
            logger.error("tokens cannot be checked: %s", error)
            raise TokensUnchecked(UNCHECKED) from error
        if held is None:
            return None
        caller = self._principals.caller(held.principal, held.id)
        if caller is None or not held.opens(shown.now):
            logger.warning("token %s was refused: %s", held.id, _why(held, shown.now))
            return None
        self._note(held.id, shown.now)
        return caller

    def problems(self) -> tuple[str, ...]:
        """Return why the store cannot be read."""
        try:
            self._store.matching("", "")
        except ConfigError as error:
            return (str(error),)
        return ()

    def close(self) -> None:
        """Close the store."""
        self._store.close()

    def _note(self, token_id: str, now: datetime) -> None:
        """Have the use noted, where that of the last minute was not; a process that ends may lose it."""
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


def _why(held: StoredToken, now: datetime) -> str:
    if held.revoked is not None and held.revoked <= now:
        return "it is revoked"
    if held.expires is not None and held.expires <= now:
        return "it is expired"
    return f"access.yaml names no principal {held.principal!r}"
