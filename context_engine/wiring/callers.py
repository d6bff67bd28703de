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
    from context_engine.adapters.identity.code_flow import CodeFlow
    from context_engine.adapters.identity.remote_keys import RemoteKeys
    from context_engine.wiring.setup import Setup


_TWO_WISHES: Final = (
    "--no-auth lets everybody in, but tokens are configured: leave it out, or remove "
    "CONTEXT_ENGINE_API_TOKEN, the tokens of access.yaml and of 'context-engine token list', and oidc"
)


def open_authenticator(
    setup: Setup, data_dir: str | Path | None, *, no_auth: bool, host: str, clock: Clock | None = None
) -> Callers:
    """Return the authenticator of a configuration's service.

    Args:
        data_dir: the data folder, which holds the tokens; None: the default.
        no_auth: accept every caller; allowed only on loopback and without configured tokens.
        clock: gives the time; None: the system's.

    Raises:
        ConfigError: no token is configured, one is too short or unreadable, or `no_auth` is not allowed.
        MissingExtra: an identity provider is configured, and the extra `server` is not installed.
    """
    return Callers(setup, setup.data_dir(data_dir), no_auth=no_auth, host=host, clock=clock or SystemClock())


def is_loopback(host: str) -> bool:
    """Return whether an address is loopback: 127.0.0.0/8, ::1 or localhost."""
    try:
        return host.lower() == "localhost" or ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


class Callers:
    """Authenticates callers by the configuration in force; an `Authenticator`. Thread-safe.

    Args:
        setup: the configuration.
        data_dir: the data folder.
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
        """Switch to another configuration; the keys of an unchanged identity provider are kept.

        Raises:
            ConfigError: unusable; the current configuration stays in force.
        """
        before = self._provider
        self._current = self._opened(setup)
        if before is not None and self._provider is not before:
            before[1].close()

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return the caller; see `Authenticator`.

        Raises:
            NotAuthenticated: no token, or an invalid one.
            TokensUnchecked: the token cannot be checked now.
        """
        return self._current.authenticate(authorization)

    def problems(self) -> tuple[str, ...]:
        """Return why some tokens cannot be checked now."""
        return self._current.problems()

    def close(self) -> None:
        """Stop background work; may be called twice."""
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
            problem = f"--no-auth is for this machine only, but others can reach {self._host}"
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
    f"no token is configured: set {API_TOKEN} to at least 32 random characters, or make a token with "
    "'context-engine token add NAME' (--no-auth serves every user of this machine without a token)"
)


class Openings(NamedTuple):
    """The tokens that a service accepts.

    Attributes:
        api_token: whether the environment's token is set.
        stored: number of valid tokens of `token add`.
        in_file: number of valid tokens in `access.yaml`.
        expired: number of expired tokens of both.
        issuer: the identity provider, or None.
    """

    api_token: bool
    stored: int
    in_file: int
    expired: int
    issuer: str | None

    @property
    def any(self) -> bool:
        """Whether any token is accepted."""
        return self.api_token or bool(self.stored or self.in_file) or self.issuer is not None


def openings(setup: Setup, data_dir: Path, now: datetime) -> Openings:
    """Return the tokens that a configuration's service accepts.

    Args:
        setup: the configuration.
        data_dir: the data folder, which holds the tokens.

    Raises:
        ConfigError: the environment's token is too short, or the tokens cannot be read.
    """
    principals = setup.config.principals
    with_store = TokenStore(data_dir)
    try:
        stored = [token for token in with_store.all() if not token.is_revoked(now)]
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
    """Return a function that fetches a provider's key document.

    Args:
        connection: returns a freshly read connection by name.
        clock: the time.

    Raises:
        ConfigError: an unusable connection.
        MissingExtra: the extra `server` is not installed.
    """
    try:
        from context_engine.adapters.identity.remote_keys import fetch_keys
    except ImportError:
        raise MissingExtra("checking the tokens of an identity provider", "server") from None

    def located() -> tuple[Connection, str]:
        """Return the server and the path of the key document."""
        if "://" not in oidc.jwks:
            named = connection(oidc.jwks)
            base, _, path = named.base_url.rpartition("/")
            return named.model_copy(update={"base_url": base}), path
        address, query, parameters = oidc.jwks.partition("?")
        base, _, path = address.rpartition("/")
        return Connection(base_url=base), path + query + parameters

    located()
    return lambda: fetch_keys(*located(), clock)


def code_flow(setup: Setup, public_url: str) -> CodeFlow | None:
    """Return the sign-in of people at the identity provider; None if `oidc.sign_in` is not set.

    Args:
        public_url: where browsers reach the service.

    Raises:
        ConfigError: `server_public_url` is not set, or the connection cannot be used.
    """
    oidc = setup.config.principals.oidc
    if oidc is None or oidc.sign_in is None:
        return None
    if not public_url:
        raise ConfigError("oidc.sign_in needs it, to be sent back to", key="server_public_url")
    from context_engine.adapters.identity.code_flow import CodeFlow

    name, connections = oidc.sign_in.connection, setup.config.connections
    return CodeFlow(oidc, lambda: connections.get(name), f"{public_url.rstrip('/')}/sign-in/callback", SystemClock())


def unreachable_keys(setup: Setup) -> str | None:
    """Return why the identity provider's keys cannot be fetched now; None if they can, or no provider is configured."""
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
