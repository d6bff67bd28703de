"""Access tokens of an OpenID Connect provider (RFC 7519, RFC 9068), checked locally.

Accepted are access tokens that the provider signed for this service and that are valid now: `alg` is configured and
fits the key, `kid` is known, there is no `crit`, `iss` and `aud` are as configured, `exp` is present and
kept, so is `nbf` or `iat`, and neither is in the future. Refused are tokens of another `typ`, ID tokens recognised by
`at_hash` or `c_hash`, and tokens bound to a key (`cnf`), which a bearer need not have.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

import jwt
from cachetools import LRUCache

from context_engine.adapters.identity.authenticator import UNCHECKED, ShownToken
from context_engine.adapters.identity.remote_keys import KeySet, RemoteKeys
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import API_PRINCIPAL, Authenticated
from context_engine.errors import TokensUnchecked
from context_engine.settings.access_file import Oidc
from context_engine.settings.principals import Principals

logger = logging.getLogger(__name__)
_FORM: Final = re.compile(rb"eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+")
_TYPES: Final = frozenset({None, "jwt", "at+jwt", "application/at+jwt"})
_ACCESS_TYPES: Final = frozenset({"at+jwt", "application/at+jwt"})
_OF_OTHERS: Final = ("at_hash", "c_hash", "cnf")
_REQUIRED: Final = ("iss", "aud", "exp")
_MOST_CACHED: Final = 4096
_ID_DIGITS: Final = 12
_LONGEST_NAME: Final = 200
_LAST_MOMENT: Final = 2.0**53
_SHOWN_ID: Final = re.compile(r"[\x21-\x7e]{1,100}")


class _RefusedToken(Exception):
    """The reason for a refusal, for the log only."""


class _Good(NamedTuple):
    """A checked token: its caller and its time of validity."""

    caller: Authenticated
    begins: float
    ends: float
    keys: KeySet


class JwtTokens:
    """Access tokens of one provider; a valid one is checked once and then known by its hash until it expires."""

    def __init__(self, oidc: Oidc, keys: RemoteKeys, principals: Principals) -> None:
        self._oidc, self._keys, self._principals = oidc, keys, principals
        self._lock = Lock()
        self._checked: LRUCache[str, _Good] = LRUCache(_MOST_CACHED)

    def caller(self, shown: ShownToken) -> Authenticated | None:
        """Return the caller who presents a token; None if it is not a valid token of the provider. The log has the
        reason.

        Raises:
            TokensUnchecked: it has the form of a token, and the provider's keys are not available yet.
        """
        keys, now = self._keys.current, shown.now.timestamp()
        with self._lock:
            known = self._checked.get(shown.sha256)
        if known is not None and known.keys is keys and known.begins <= now < known.ends:
            return known.caller
        if _FORM.fullmatch(shown.token) is None:
            return None
        if keys is None:
            self._keys.want()
            raise TokensUnchecked(UNCHECKED)
        kid = None
        try:
            header = jwt.get_unverified_header(shown.token)
            kid = header.get("kid")
            good = self._check(shown, header, keys, shown.now)
        except (_RefusedToken, jwt.PyJWTError) as error:
            why = str(error) if isinstance(error, _RefusedToken) else type(error).__name__
            logger.warning("a token of the identity provider was refused: %s (kid %.80r)", why, kid)
            return None
        with self._lock:
            self._checked[shown.sha256] = good
        return good.caller

    def problems(self) -> tuple[str, ...]:
        """Return the reason if no token can be checked: there are no keys yet."""
        if self._keys.current is not None:
            return ()
        return (f"the keys of the identity provider are not there: {self._keys.problem}",)

    def close(self) -> None:
        """Stop fetching keys."""
        self._keys.close()

    def _check(self, shown: ShownToken, header: Mapping[str, Any], keys: KeySet | None, now: datetime) -> _Good:
        algorithm = self._algorithm(header)
        key = self._key(header, algorithm, keys)
        claims = jwt.decode(
            shown.token,
            key,
            algorithms=[algorithm],
            audience=self._oidc.audience,
            issuer=self._oidc.issuer,
            options={
                "require": list(_REQUIRED),
                "verify_exp": False,
                "verify_nbf": False,
                "verify_iat": False,
                "enforce_minimum_key_length": True,
            },
        )
        begins, ends = self._span(claims)
        if not begins <= now.timestamp() < ends:
            raise _RefusedToken("it is expired, or not yet good")
        if other := next((name for name in _OF_OTHERS if name in claims), None):
            raise _RefusedToken(f"it is no access token for a bearer: it has {other!r}")
        assert keys is not None  # one of them has checked the signature
        return _Good(self._who(shown, claims), begins, ends, keys)

    def _algorithm(self, header: Mapping[str, Any]) -> str:
        algorithm, kind = header.get("alg"), header.get("typ")
        if algorithm not in self._oidc.algorithms:
            raise _RefusedToken("its algorithm is not among those of access.yaml")
        if "crit" in header or "b64" in header:
            raise _RefusedToken("it has extensions that this service does not know")
        kind = kind.lower() if isinstance(kind, str) else kind
        if not (isinstance(kind, str) or kind is None) or kind not in self._types:
            raise _RefusedToken("it is typed as another kind of token")
        return str(algorithm)

    @property
    def _types(self) -> frozenset[str | None]:
        return _ACCESS_TYPES if self._oidc.at_jwt_only else _TYPES

    def _key(self, header: Mapping[str, Any], algorithm: str, keys: KeySet | None) -> Any:
        kid = header.get("kid")
        if not isinstance(kid, str):
            raise _RefusedToken("it does not name its key")
        key = None if keys is None else keys.find(kid, algorithm)
        if key is None:
            self._keys.want()
            raise _RefusedToken("its key is not known; the keys are fetched again")
        return key

    def _span(self, claims: Mapping[str, Any]) -> tuple[float, float]:
        """Return when a token's validity begins and ends, in Unix seconds including the leeway."""
        moments = {name: claims[name] for name in ("exp", "nbf", "iat") if name in claims}
        for name, value in moments.items():
            if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) < _LAST_MOMENT:
                raise _RefusedToken(f"its {name} is no moment")
        begins = [moments[name] for name in ("nbf", "iat") if name in moments]
        if not begins:
            raise _RefusedToken("it says neither in nbf nor in iat from when it is good")
        leeway = self._oidc.leeway_s
        return max(begins) - leeway, moments["exp"] + leeway

    def _who(self, shown: ShownToken, claims: Mapping[str, Any]) -> Authenticated:
        """Return the caller by the claims; never an operator, a gateway or a principal that the file names."""
        principal = self._principals.for_claims(claims)
        if not principal.id or len(principal.id) > _LONGEST_NAME or not principal.id.isprintable():
            raise _RefusedToken("the claim that names the principal is missing, or cannot be used")
        if principal.id == API_PRINCIPAL.id or principal.id in self._principals.named:
            raise _RefusedToken("it names itself as a principal of access.yaml")
        jti = claims.get("jti")
        named = isinstance(jti, str) and _SHOWN_ID.fullmatch(jti)
        return Authenticated(principal=principal, token_id=str(jti) if named else shown.sha256[:_ID_DIGITS])
