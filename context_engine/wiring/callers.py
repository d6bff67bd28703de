"""Builds the authenticator of a service from its configuration, and counts the valid tokens."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.adapters.identity.authenticator import NoAuthentication, TokenAuthenticator, TokenKind
from context_engine.adapters.identity.held_tokens import ApiToken, FileTokens, StoredTokens
from context_engine.core.engine import SystemClock
from context_engine.core.models import NOBODY, Authenticated
from context_engine.core.protocols import Authenticator, Clock
from context_engine.errors import ConfigError, ContextEngineError, MissingExtra
from context_engine.settings.access_file import Oidc
from context_engine.settings.connections import Connection
from context_engine.settings.environment_secrets import API_TOKEN, read_api_token
from context_engine.settings.token_store import TokenStore

if TYPE_CHECKING:
    from context_engine.adapters.identity.remote_keys import RemoteKeys
    from context_engine.wiring.setup import Setup


_TWO_WISHES: Final = (
    "--no-auth lets everybody in, and there are tokens that say who may: leave it out, or take away "
    "CONTEXT_ENGINE_API_TOKEN, the tokens of access.yaml and of 'context-engine token list', and oidc"
)


def open_authenticator(
    setup: Setup, data_dir: str | Path | None, *, no_auth: bool, host: str, clock: Clock | None = None
) -> Callers:
    """Return what says who calls the service of a configuration.

    Args:
        setup: the configuration.
        data_dir: the folder of its data, where its tokens are; None for the usual one.
        no_auth: let everybody in; on loopback, and where nothing else is said, alone.
        host: the address that the service listens on.
        clock: the time; the system's if None.

    Raises:
        ConfigError: nothing opens the service, a token is too short or cannot be read, or `no_auth` is not for it.
        MissingExtra: it takes the tokens of an identity provider, and the extra `server` is not installed.
    """
    return Callers(setup, setup.data_dir(data_dir), no_auth=no_auth, host=host, clock=clock or SystemClock())


def is_loopback(host: str) -> bool:
    """Return whether only this machine reaches an address: 127.0.0.0/8, ::1 or localhost."""
    try:
        return host.lower() == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Callers:
    """Says who calls, by the configuration in force: an `Authenticator`. Safe for many threads.

    Args:
        setup: the configuration.
        data_dir: the folder of its data.
        no_auth, host, clock: see `open_authenticator`.

    Raises:
        ConfigError: see `open_authenticator`.
    """

    def __init__(self, setup: Setup, data_dir: Path, *, no_auth: bool, host: str, clock: Clock) -> None:
        self._data_dir, self._no_auth, self._host, self._clock = data_dir, no_auth, host, clock
        self._store = TokenStore(data_dir)
        self._fetch: Callable[[], Any] = dict
        self._provider: tuple[Oidc, RemoteKeys] | None = None
        self._current = self._opened(setup)

    def renew(self, setup: Setup) -> None:
        """Put another configuration in force; the keys of the identity provider stay where it is the same.

        Args:
            setup: the configuration.

        Raises:
            ConfigError: it cannot be used, and the one in force stays.
        """
        before = self._provider
        self._current = self._opened(setup)
        if before is not None and self._provider is not before:
            before[1].close()

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return who calls; see `Authenticator`.

        Raises:
            NotAuthenticated: no token, or one that opens nothing.
            TokensUnchecked: it cannot be checked now.
        """
        return self._current.authenticate(authorization)

    def problems(self) -> tuple[str, ...]:
        """Return why some tokens cannot be checked now."""
        return self._current.problems()

    def close(self) -> None:
        """Stop what runs beside it; may be called twice."""
        self._current.close()
        self._store.close()

    def _opened(self, setup: Setup) -> Authenticator:
        principals = setup.config.principals
        opening = openings(setup, self._data_dir, self._clock.now())
        if self._no_auth:
            self._check_no_auth(opening.any)
            return NoAuthentication(Authenticated(principal=NOBODY, operator=not principals.in_force))
        if not opening.any:
            expired = f"; {opening.expired} tokens are expired" if opening.expired else ""
            raise ConfigError(NOTHING_OPENS + expired)
        token = read_api_token(setup.env, setup.cwd)
        kinds: list[TokenKind] = [] if token is None else [ApiToken(token, principals)]
        kinds += [StoredTokens(self._store, principals), FileTokens(principals)]
        if principals.oidc is not None:
            kinds.append(self._jwt_tokens(principals.oidc, setup))
        else:
            self._provider = None
        return TokenAuthenticator(kinds, self._clock)

    def _check_no_auth(self, opened: bool) -> None:
        if not is_loopback(self._host):
            problem = f"--no-auth serves this machine alone, and {self._host} is reached by others"
            raise ConfigError(f"{problem}: give --host 127.0.0.1, or set a token")
        if opened:
            raise ConfigError(_TWO_WISHES)

    def _jwt_tokens(self, oidc: Oidc, setup: Setup) -> TokenKind:
        self._fetch = key_source(oidc, setup.config.connections.get, self._clock)
        from context_engine.adapters.identity.jwt_tokens import JwtTokens
        from context_engine.adapters.identity.remote_keys import RemoteKeys

        if self._provider is None or self._provider[0] != oidc:
            keys = RemoteKeys(lambda: self._fetch(), refresh_s=oidc.refresh_s, min_refresh_s=oidc.min_refresh_s)
            self._provider = (oidc, keys)
        return JwtTokens(oidc, self._provider[1], setup.config.principals)


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
        stored = [token for token in with_store.all() if token.revoked is None or token.revoked > now]
    finally:
        with_store.close()
    opening = sum(token.opens(now) for token in stored)
    in_file = sum(not token.expired(now) for token in principals.tokens)
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
