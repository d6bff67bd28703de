"""What opens the service of a configuration, and why nothing does."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.core.engine import SystemClock
from context_engine.core.protocols import Clock
from context_engine.errors import ContextEngineError, MissingExtra
from context_engine.settings.api_token import API_TOKEN, read_api_token
from context_engine.settings.connections import Connection
from context_engine.settings.oidc import Oidc
from context_engine.settings.token_store import TokenStore

if TYPE_CHECKING:
    from context_engine.wiring.build import Setup


NOTHING_OPENS: Final = (
    f"nothing opens the service: set {API_TOKEN} to at least 32 random characters, or make a token with "
    "'context-engine token add NAME' (--no-auth serves whoever is at this machine without any)"
)


class Openings(NamedTuple):
    """What opens a service.

    Attributes:
        api_token: whether the token of the environment is set.
        stored: tokens of `token add` that are neither expired nor revoked.
        in_file: tokens of `access.yaml` that are not expired.
        expired: tokens of both that are.
        issuer: whose access tokens are taken; None: nobody's.
    """

    api_token: bool
    stored: int
    in_file: int
    expired: int
    issuer: str | None

    @property
    def any(self) -> bool:
        """Whether there is anything that opens it."""
        return self.api_token or bool(self.stored or self.in_file) or self.issuer is not None


def openings(setup: Setup, data_dir: Path, now: datetime) -> Openings:
    """Return what opens the service of a configuration.

    Args:
        setup: the configuration.
        data_dir: the folder of its data, where its tokens are.
        now: the moment.

    Raises:
        ConfigError: the token of the environment is too short, or the tokens cannot be read.
    """
    principals = setup.config.principals
    with_store = TokenStore(data_dir)
    try:
        stored = [one for one in with_store.all() if one.revoked is None or one.revoked > now]
    finally:
        with_store.close()
    opening = sum(one.opens(now) for one in stored)
    in_file = sum(not one.expired(now) for one in principals.tokens)
    return Openings(
        api_token=read_api_token(setup.env, setup.cwd) is not None,
        stored=opening,
        in_file=in_file,
        expired=len(stored) - opening + len(principals.tokens) - in_file,
        issuer=None if principals.oidc is None else principals.oidc.issuer,
    )


def key_source(oidc: Oidc, connection: Callable[[str], Connection], clock: Clock) -> Callable[[], Any]:
    """Return what fetches the document with a provider's keys.

    Args:
        oidc: says where it is.
        connection: returns a connection by its name, read anew.
        clock: the time.

    Raises:
        ConfigError: the connection cannot be used.
        MissingExtra: the extra `server` is not installed.
    """
    try:
        from context_engine.adapters.identity.remote_keys import fetch_keys
    except ImportError:
        raise MissingExtra("checking the tokens of an identity provider", "server") from None

    def located() -> tuple[Connection, str]:
        """Return the server and the path of the document: the last part of its address."""
        if "://" not in oidc.jwks:
            named = connection(oidc.jwks)
            base, _, path = named.base_url.rpartition("/")
            return named.model_copy(update={"base_url": base}), path
        address, query, parameters = oidc.jwks.partition("?")
        base, _, path = address.rpartition("/")
        return Connection(base_url=base), path + query + parameters

    located()
    return lambda: fetch_keys(*located(), clock)


def unreachable_keys(setup: Setup) -> str | None:
    """Return why the keys of the identity provider cannot be had now; None where they can, or none is configured."""
    oidc = setup.config.principals.oidc
    if oidc is None:
        return None
    try:
        document = key_source(oidc, setup.config.connections.get, SystemClock())()
        from context_engine.adapters.identity.remote_keys import read_key_set

        read_key_set(document)
    except (ContextEngineError, ValueError) as error:
        return str(error)
    return None
