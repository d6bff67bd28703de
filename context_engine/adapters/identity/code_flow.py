"""Sign-in of people at an identity provider: OpenID Connect's authorization code flow with PKCE (RFC 6749, 7636)."""

from __future__ import annotations

import base64
import hashlib
import secrets
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlencode

from context_engine.adapters.http import ApiClient, HttpCall
from context_engine.adapters.http.access_tokens import client_pair
from context_engine.adapters.http.api import Api, Meaning
from context_engine.adapters.http.client import PHASES
from context_engine.adapters.http.keys import BASIC
from context_engine.core.protocols import Clock
from context_engine.errors import ConfigError, SourceAuthError, SourceProtocolError
from context_engine.settings.access_file import Oidc, SignIn
from context_engine.settings.connections import Connection

_FORM: Final = {"Accept": "application/json", "Content-Type": "application/x-www-form-urlencoded"}
_REFUSED: Final = Meaning(
    SourceAuthError, "{name} did not accept the sign-in ({status})", "sign in again; see client_id and client_secret"
)
_API: Final = Api(
    name="the identity provider",
    key_header=BASIC,
    statuses={400: _REFUSED, 401: _REFUSED, 403: _REFUSED},
    max_bytes=256 * 1024,
)


class BegunSignIn(NamedTuple):
    """A sign-in that a browser was sent away with.

    Attributes:
        address: of the provider, where the browser goes.
        state: the provider repeats it, so that nobody can slip in an answer to another sign-in.
        verifier: proves that the one who fetches the token began the sign-in.
    """

    address: str
    state: str
    verifier: str


class CodeFlow:
    """Begins and completes sign-ins. Thread-safe.

    Args:
        oidc: the provider; `sign_in` is set.
        connection: returns the freshly read connection to its token endpoint.
        redirect_uri: where the provider sends the browser back to.
    """

    def __init__(self, oidc: Oidc, connection: Callable[[], Connection], redirect_uri: str, clock: Clock) -> None:
        if oidc.sign_in is None:
            raise ConfigError("oidc.sign_in is not set")
        self._issuer, self._sign_in, self._redirect_uri = oidc.issuer, oidc.sign_in, redirect_uri
        self._connection, self._clock = connection, clock
        _token_endpoint(connection(), self._sign_in)

    def begin(self) -> BegunSignIn:
        """Return a new sign-in.

        Raises:
            ConfigError: the connection cannot be used.
        """
        state, verifier = secrets.token_urlsafe(32), secrets.token_urlsafe(48)
        challenge = base64.urlsafe_b64encode(hashlib.sha256(verifier.encode()).digest()).rstrip(b"=").decode()
        query = {
            "response_type": "code",
            "client_id": self._connection().client_id,
            "redirect_uri": self._redirect_uri,
            "scope": self._sign_in.scope,
            "state": state,
            "code_challenge": challenge,
            "code_challenge_method": "S256",
        }
        joint = "&" if "?" in self._sign_in.authorize else "?"
        return BegunSignIn(f"{self._sign_in.authorize}{joint}{urlencode(query)}", state, verifier)

    def token(self, begun_state: str, verifier: str, answer: Mapping[str, str]) -> str:
        """Return the access token of a person whom the provider sent back.

        Args:
            begun_state, verifier: of the sign-in that this browser began.
            answer: the parameters of the address that the provider sent the browser to.

        Raises:
            SourceError: the provider refused, or the answer is not to this sign-in.
            ConfigError: the connection cannot be used.
        """
        if not secrets.compare_digest(answer.get("state", "").encode(), begun_state.encode()):
            raise SourceProtocolError("the answer is not to a sign-in that this browser began: sign in again")
        if answer.get("iss", self._issuer) != self._issuer:
            raise SourceProtocolError("the answer comes from another identity provider: sign in again")
        if "code" not in answer:
            problem = answer.get("error", "no code")[:100]
            raise SourceAuthError(f"the identity provider did not sign you in ({problem}): sign in again")
        return self._fetch(answer["code"], verifier)

    def _fetch(self, code: str, verifier: str) -> str:
        connection, path = _token_endpoint(self._connection(), self._sign_in)
        form = {
            "grant_type": "authorization_code",
            "code": code,
            "redirect_uri": self._redirect_uri,
            "code_verifier": verifier,
        }
        client = ApiClient(_API, lambda: connection, self._clock)
        due = self._clock.monotonic() + PHASES * connection.timeout_s
        try:
            call = HttpCall("POST", path, urlencode(form), _FORM)
            document = client.call(call, client.access(), lambda: due - self._clock.monotonic()).json()
        finally:
            client.close()
        token = document.get("access_token") if isinstance(document, dict) else None
        if not isinstance(token, str) or not token:
            raise SourceProtocolError("the identity provider gave no access token: check token_url and oidc.sign_in")
        return token


def _token_endpoint(connection: Connection, sign_in: SignIn) -> tuple[Connection, str]:
    """Return the token server as a connection of its own, with the client's secret as its key, and the path there."""
    if connection.token_url is None:
        problem = "needs token_url, client_id and client_secret of the pages at the identity provider"
        raise ConfigError(problem, key=f"connections.{sign_in.connection}")
    root, _, path = connection.token_url.rpartition("/")
    unused = dict.fromkeys(("token_url", "client_id", "client_secret", "token_scope", "api_key_header"))
    return connection.model_copy(update={**unused, "base_url": root, "api_key": client_pair(connection)}), path
