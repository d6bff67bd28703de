"""The form of `oidc:` in `access.yaml`: whose tokens a service takes, and by which keys it knows them."""

from __future__ import annotations

from typing import Annotated, Literal, get_args
from urllib.parse import urlsplit

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from context_engine.settings.connections import sends_unencrypted

Algorithm = Literal["RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"]
"""Signatures by a key that the provider alone has; a shared key would let every service make tokens."""

_Text = Annotated[str, StringConstraints(strip_whitespace=True, min_length=1, max_length=2000)]


def _each(value: object) -> object:
    return (value,) if isinstance(value, str) else value


def _asymmetric(value: object) -> object:
    for one in value if isinstance(value, list | tuple) else ():
        if one not in get_args(Algorithm):
            raise ValueError(f"{one!r} is none of the signatures that are taken: {', '.join(get_args(Algorithm))}")
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
        raise ValueError("must be https: whoever can change the keys on their way can make every token")
    return value


class Oidc(BaseModel):
    """An OpenID Connect provider whose access tokens open a service."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    issuer: _Text = Field(description="The claim `iss`, letter by letter, usually the provider's https address.")
    audience: Annotated[tuple[_Text, ...], BeforeValidator(_each), Field(min_length=1)] = Field(
        description="This service's name at the provider, one or several; the claim `aud` must hold one of them. Never "
        "the id of an application that people sign in to: its ID tokens would open the service too."
    )
    algorithms: Annotated[
        tuple[Algorithm, ...], BeforeValidator(_asymmetric), BeforeValidator(_each), Field(min_length=1)
    ] = Field(description="The signatures that are taken, such as [RS256].")
    jwks: Annotated[_Text, AfterValidator(_address)] = Field(
        description="Where the provider publishes its keys: the https URL (`jwks_uri` of its discovery document), or "
        "the name of a connection whose base_url it is, for a proxy or authorities of one's own."
    )
    leeway_s: Annotated[int, Field(strict=True, ge=0, le=300)] = Field(
        30, description="Seconds by which the clocks of provider and service may differ."
    )
    refresh_s: Annotated[int, Field(strict=True, ge=10, le=86_400)] = Field(
        900, description="Seconds after which the keys are fetched again."
    )
    min_refresh_s: Annotated[int, Field(strict=True, ge=1, le=3600)] = Field(
        30, description="A token of an unknown key has them fetched earlier, but never sooner than this after the last."
    )
    at_jwt_only: bool = Field(
        False,
        description="Whether tokens must be typed `at+jwt` (RFC 9068); without it untyped ones and `JWT` are taken.",
    )
