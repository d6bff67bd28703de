"""The form of `access.yaml`: principals, and the identity provider under `oidc:`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Final, Literal, get_args
from urllib.parse import urlsplit

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StringConstraints,
    ValidationError,
    WithJsonSchema,
)

from context_engine.core.models import Classification
from context_engine.errors import ConfigError, nearest
from context_engine.settings.connections import sends_unencrypted
from context_engine.settings.files import Interpolator, Location, read_yaml
from context_engine.settings.messages import config_error

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Asymmetric signatures only: with a shared key every service could make tokens."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


def _each(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _asymmetric(value: object) -> object:
    for name in value if isinstance(value, list | tuple) else ():
        if name not in get_args(Algorithm):
            raise ValueError(f"{name!r} is not an accepted signature: use one of {', '.join(get_args(Algorithm))}")
    return value


def _address(value: str) -> str:
    if "://" not in value:
        return value
    try:
        parts = urlsplit(value)
        usable = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        usable = False
    if not usable or "@" in parts.netloc or parts.fragment:
        raise ValueError("must be the name of a connection, or an https URL without user name and fragment")
    if sends_unencrypted(value):
        raise ValueError("must be https: anyone who can alter the keys in transit can forge every token")
    return value


def _browser_address(value: str) -> str:
    if "://" not in value:
        raise ValueError("must be an https URL: a browser is sent there")
    return _address(value)


class SignIn(BaseModel):
    """How people sign in to the pages: OpenID Connect's authorization code flow, with PKCE (RFC 7636)."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    authorize: Annotated[_Text, AfterValidator(_browser_address)] = Field(
        description="`authorization_endpoint` of the provider's discovery document."
    )
    connection: _Text = Field(
        description="The name of a connection with the provider's token_url, and the client_id and client_secret of "
        "the pages. Register the redirect URI server_public_url + /sign-in/callback."
    )
    scope: _Text = Field(
        "openid", description="Scopes, separated by spaces, that give an access token for one of `audience`."
    )


class Oidc(BaseModel):
    """An OpenID Connect provider whose access tokens a service accepts."""

    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")

    issuer: _Text = Field(description="The exact `iss` claim, usually the provider's https address.")
    audience: Annotated[tuple[_Text, ...], BeforeValidator(_each), Field(min_length=1)] = Field(
        description="The names of this service at the provider; the `aud` claim must hold one of them. Never use the "
        "id of an application that people sign in to: its ID tokens would then be accepted too."
    )
    algorithms: Annotated[
        tuple[Algorithm, ...], BeforeValidator(_asymmetric), BeforeValidator(_each), Field(min_length=1)
    ] = Field(description="The accepted signature algorithms, such as [RS256].")
    jwks: Annotated[_Text, AfterValidator(_address)] = Field(
        description="Where the provider publishes its keys: the https URL (`jwks_uri` of its discovery document), or "
        "the name of a connection with that base_url, for a proxy or a private certificate authority."
    )
    leeway_s: Annotated[int, Field(strict=True, ge=0, le=300)] = Field(
        30, description="Seconds that the clocks of provider and service may differ."
    )
    refresh_s: Annotated[int, Field(strict=True, ge=10, le=86_400)] = Field(
        900, description="Seconds after which the keys are fetched again."
    )
    min_refresh_s: Annotated[int, Field(strict=True, ge=1, le=3600)] = Field(
        30, description="A token with an unknown key makes them be fetched earlier, but this long after the last fetch."
    )
    at_jwt_only: bool = Field(
        False,
        description="Require the type `at+jwt` (RFC 9068); false also accepts `JWT` and no type.",
    )
    sign_in: SignIn | None = Field(None, description="How people sign in to the pages; null: with a token.")


ACCESS_FILE: Final = "access.yaml"
MANIFEST_POLICY: Final = "manifest"
"""The built-in policy, which applies the access rules of the manifests."""

_MAY_VARY: Final = frozenset(("app", "user", "sha256"))
"""Keys that may use a variable: ids of a server. The caller may control the environment, so no other key may."""

Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=200)]
Texts = Annotated[tuple[Text, ...], BeforeValidator(lambda value: (value,) if isinstance(value, str) else value)]


def _in_utc(value: datetime) -> datetime:
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value


def _digest(value: str) -> str:
    if len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        raise ValueError(
            "must be the SHA-256 of a token, 64 lower-case hexadecimal digits: never write the token itself, "
            "and replace it if others may read this file"
        )
    return value


class _Form(BaseModel):
    model_config = ConfigDict(defer_build=True, frozen=True, extra="forbid")


class DifyCaller(_Form):
    """A Dify app, or one user of the app."""

    app: Text = Field(description="The app's id, as in its address.")
    user: Text | None = Field(None, description="The id of one user of the app; if omitted, all its users.")


class Token(_Form):
    """A token of a program, stored as its hash only."""

    sha256: Annotated[str, AfterValidator(_digest)] = Field(
        description="SHA-256 of the token in hexadecimal: 'context-engine access token' prints both.",
        json_schema_extra={"pattern": r"^[0-9a-f]{64}$|\$\{"},
    )
    expires: Annotated[datetime, AfterValidator(_in_utc), WithJsonSchema({"type": "string"})] | None = Field(
        None, description="The token is refused from this moment on; a date means 00:00 UTC."
    )

    def expired(self, now: datetime) -> bool:
        """Return whether the token is refused at `now`."""
        return self.expires is not None and self.expires <= now


class PrincipalEntry(_Form):
    """The rights of a principal, and the callers who act as it."""

    roles: Texts = Field((), description="Must equal those in the manifests' rules exactly.")
    groups: Texts = Field((), description="Must equal those in the manifests' rules exactly.")
    clearance: Classification = Field(
        Classification.INTERNAL, description="The highest classification it may read where a rule exists."
    )
    os_users: Texts = Field((), description="Operating system users who are this principal at the command line.")
    dify: tuple[DifyCaller, ...] = Field((), description="Dify apps, or users of them, that are this principal.")
    tokens: tuple[Token, ...] = Field(
        (), description="Tokens that are this principal, such as the access token of an endpoint."
    )
    may_act_as: Texts = Field((), description="Principals that its os_users may name with --as.")
    operator: bool = Field(
        False,
        description="Its os_users may act as any principal and run 'access'; its tokens may read every record of a "
        "service.",
    )
    gateway: bool = Field(
        False,
        description="Its tokens may carry the calls of Dify's apps and users to a service: each call then acts as the "
        "principal whose `dify` names the app or user.",
    )


class Claims(_Form):
    """The claims of a verified OIDC token that identify the caller; a dot leads into a nested claim."""

    id: Text = Field("sub", description="Names the principal in the record.")
    roles: Text | None = Field(None, description="A role or a list of roles; null: no claim gives roles.")
    groups: Text | None = Field(None, description="A group or a list of groups; null: no claim gives groups.")
    clearance: Text | None = Field(
        None, description="The clearance; an unreadable one counts as public. Null: everybody is cleared for internal."
    )


class AccessFile(_Form):
    """The whole `access.yaml`."""

    version: Literal[1] = Field(description="Version of this file format.")
    policy: Text = Field(
        MANIFEST_POLICY, description="`manifest` (the rules of the manifests) or the name of an installed policy."
    )
    principals: dict[Text, PrincipalEntry] = Field({}, description="The principals by name.")
    claims: Claims | None = Field(None, description="The claims that identify the caller; null: none are accepted.")
    oidc: Oidc | None = Field(
        None, description="The provider whose access tokens are accepted; `claims` maps them to principals. Null: none."
    )


def read_access(path: Path, label: str, env: Mapping[str, str]) -> AccessFile:
    """Return the content of `access.yaml`.

    Raises:
        ConfigError: the file or one of its keys cannot be used, or two principals claim the same user, app or token.
    """
    filler = Interpolator(env, path.parent, label, fixed=_is_fixed)
    filled = filler.fill(read_yaml(path, label))
    try:
        access = AccessFile.model_validate(filled)
    except ValidationError as error:
        raise config_error(error, filled, AccessFile, file=label, show_values=False) from None
    if problems := [*_claimed_twice(access, label), *_unknown_names(access, label), *_unclaimed(access, label)]:
        raise ConfigError.together(problems)
    return access


def _is_fixed(location: Location) -> bool:
    return next((step for step in reversed(location) if isinstance(step, str)), "") not in _MAY_VARY


def _claimed_twice(access: AccessFile, label: str) -> Iterator[ConfigError]:
    """Yield a problem for every user, app or token that two principals claim."""
    holders: dict[tuple[str, Any], str] = {}
    for name, entry in access.principals.items():
        for key, identity, where in _identities(entry):
            first = holders.setdefault((key, identity), name)
            if first != name:
                problem = f"{where} is principal {first!r} too: remove it from one of the two"
                yield ConfigError(problem, file=label, key=f"principals.{name}.{key}")


def _identities(entry: PrincipalEntry) -> Iterator[tuple[str, Any, str]]:
    """Yield the identities of a principal: the key, the value, and its name in messages."""
    yield from (("os_users", user, f"user {user!r}") for user in dict.fromkeys(entry.os_users))
    for caller in dict.fromkeys(entry.dify):
        of_user = f"user {caller.user!r} of " if caller.user is not None else ""
        yield "dify", caller, f"{of_user}app {caller.app!r}"
    yield from (("tokens", token, f"the token {token[:8]}…") for token in {token.sha256 for token in entry.tokens})


def _unclaimed(access: AccessFile, label: str) -> Iterator[ConfigError]:
    if access.oidc is not None and access.claims is None:
        problem = "needs 'claims' beside it, which map a token to a principal; 'claims: {}' uses 'sub' alone"
        yield ConfigError(problem, file=label, key="oidc")


def _unknown_names(access: AccessFile, label: str) -> Iterator[ConfigError]:
    for name, entry in access.principals.items():
        for other in entry.may_act_as:
            if other not in access.principals:
                problem = f"unknown principal {other!r}.{nearest(other, access.principals)}"
                yield ConfigError(problem, file=label, key=f"principals.{name}.may_act_as")
