"""Principals of `access.yaml` for users, apps, tokens and claims; how a token is made and hashed."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
from collections.abc import Iterable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from context_engine.core.models import API_PRINCIPAL, NOBODY, Authenticated, Classification, Principal
from context_engine.errors import InvalidRequest, nearest
from context_engine.settings.access_file import ACCESS_FILE, AccessFile, Claims, DifyCaller, Oidc, Token

_SHOWN: Final = 8
"""Digits of a hash that identify a token in logs."""


class Principals:
    """The principals of `access.yaml`. Anybody else is `NOBODY`, who has no role and may read public content only.

    Args:
        access: the file's content; None if there is no file: then everybody at the command line is an operator.
        file: its name in messages.

    Attributes:
        in_force: whether the file exists; access is then checked even if no manifest has a rule.
        policy: the name of the policy that decides.
    """

    def __init__(self, access: AccessFile | None = None, file: str = ACCESS_FILE) -> None:
        self.in_force = access is not None
        self._access = access = access or AccessFile.model_construct(version=1)  # nothing to check: skip the schema
        self.policy, self.file = access.policy, file
        self._named = {
            name: Principal(
                id=name, roles=frozenset(entry.roles), groups=frozenset(entry.groups), clearance=entry.clearance
            )
            for name, entry in access.principals.items()
        }
        self._of_user = {user: name for name, entry in access.principals.items() for user in entry.os_users}
        self._of_dify = {caller: name for name, entry in access.principals.items() for caller in entry.dify}
        self._tokens = [(token, name) for name, entry in access.principals.items() for token in entry.tokens]

    @property
    def named(self) -> Mapping[str, Principal]:
        """The principals by name, in the order of the file."""
        return self._named

    @property
    def tokens(self) -> tuple[Token, ...]:
        """The tokens of all principals in the file."""
        return tuple(token for token, _ in self._tokens)

    @property
    def oidc(self) -> Oidc | None:
        """The provider whose tokens are accepted; None: no provider."""
        return self._access.oidc

    @property
    def takes_claims(self) -> bool:
        """Whether claims may give roles and groups that the file does not name."""
        return self._access.claims is not None

    def for_os_user(self, user: str) -> Principal:
        """Return the principal of an operating system user."""
        return self._called(self._of_user.get(user))

    def for_dify(self, app: str | None, user: str | None) -> Principal:
        """Return the principal of a call from Dify: that of the app's user, else that of the app.

        Args:
            app, user: ids from Dify's runtime, never from a parameter; None if it gives none.
        """
        if not app:
            return NOBODY
        of_app = self._of_dify.get(DifyCaller(app=app))
        return self._called((self._of_dify.get(DifyCaller(app=app, user=user)) if user else None) or of_app)

    def for_token(self, token: str, *, now: datetime) -> Principal | None:
        """Return the principal of a token; None if unknown or expired at `now`."""
        caller = self.holder(token_hash(token), now=now)
        return None if caller is None else caller.principal

    def holder(self, sha256: str, *, now: datetime) -> Authenticated | None:
        """Return the caller whose token has a hash; None if unknown or expired at `now`."""
        holder = None
        for token, name in self._tokens:  # no early exit: the time taken must reveal nothing
            if hmac.compare_digest(token.sha256, sha256) and not token.expired(now):
                holder = self.caller(name, sha256[:_SHOWN])
        return holder

    def caller(self, name: str, token_id: str) -> Authenticated | None:
        """Return the caller who holds a token of a principal; None if the file does not name that principal.

        Without an entry in the file the principal `api` has no role and is cleared for public content.
        """
        entry = self._access.principals.get(name)
        if entry is None:
            return Authenticated(principal=API_PRINCIPAL, token_id=token_id) if name == API_PRINCIPAL.id else None
        return Authenticated(
            principal=self._named[name], token_id=token_id, operator=entry.operator, gateway=entry.gateway
        )

    def for_claims(self, claims: Mapping[str, Any]) -> Principal:
        """Return the principal that the claims of a checked OIDC token describe.

        An unreadable clearance counts as PUBLIC; without a claim for it the clearance is INTERNAL.
        """
        names = self._access.claims
        if names is None:
            return NOBODY
        return Principal(
            id=next(iter(_texts(_claim(claims, names.id))), ""),
            roles=frozenset(_texts(_claim(claims, names.roles))),
            groups=frozenset(_texts(_claim(claims, names.groups))),
            clearance=_clearance(claims, names),
        )

    def is_operator(self, user: str) -> bool:
        """Return whether an operating system user is an operator; without the file everybody is."""
        name = self._of_user.get(user)
        return not self.in_force or (name is not None and self._access.principals[name].operator)

    def acting_as(self, user: str, name: str) -> Principal:
        """Return the principal that an operating system user asks to act as.

        Raises:
            InvalidRequest: not allowed; only an operator learns whether the principal exists.
        """
        if not self.in_force:
            raise InvalidRequest(f"there is no principal {name!r}: there is no config/access.yaml to name principals")
        own = self._of_user.get(user)
        operator = self.is_operator(user)
        if operator and name not in self._named:
            raise InvalidRequest(f"unknown principal {name!r}.{nearest(name, self._named)}")
        if operator or (own is not None and name in (own, *self._access.principals[own].may_act_as)):
            return self._named[name]
        raise InvalidRequest(f"you may not act as {name!r}: access.yaml does not allow this to the user {user!r}")

    def _called(self, name: str | None) -> Principal:
        return NOBODY if name is None else self._named[name]


NO_PRINCIPALS: Final = Principals()


def _claim(claims: Mapping[str, Any], name: str | None) -> Any:
    """Return a claim by its exact name, else by its dotted path; None if missing."""
    if name is None or name in claims:
        return claims.get(name) if name else None
    value: Any = claims
    for step in name.split("."):
        value = value.get(step) if isinstance(value, Mapping) else None
    return value


def _texts(value: Any) -> Iterable[str]:
    """Return the texts of a claim: a text or a list of texts; () for anything else."""
    values = value if isinstance(value, list | tuple) else (value,)
    return [item for item in values if isinstance(item, str) and item]


def _clearance(claims: Mapping[str, Any], names: Claims) -> Classification:
    if names.clearance is None:
        return Classification.INTERNAL
    try:
        return Classification(_claim(claims, names.clearance))
    except ValueError:
        return Classification.PUBLIC


_ID_BYTES: Final = 5
_SECRET_BYTES: Final = 32
_FORM: Final = re.compile(rb"ce_([0-9a-f]{10})_[A-Za-z0-9_-]{43}")


class NewToken(NamedTuple):
    """A token, to be shown once.

    Attributes:
        id: ten hexadecimal digits; not secret.
        text: ce_ID_SECRET; 256 random bits in the alphabet of URLs.
    """

    id: str
    text: str


def new_token() -> NewToken:
    """Return a random token."""
    token_id = secrets.token_hex(_ID_BYTES)
    return NewToken(token_id, f"ce_{token_id}_{secrets.token_urlsafe(_SECRET_BYTES)}")


def id_in(token: bytes) -> str | None:
    """Return the id in a token; None if it has another form."""
    match = _FORM.fullmatch(token)
    return None if match is None else match[1].decode()


def token_hash(token: str | bytes) -> str:
    """Return the SHA-256 of a token in hexadecimal; a token is random, so no slow hash is needed."""
    return hashlib.sha256(token if isinstance(token, bytes) else token.encode()).hexdigest()
