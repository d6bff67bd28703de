"""The plugin's credentials, and certificates pasted into a form field."""

from __future__ import annotations

import base64
import binascii
import hashlib
import json
import re
import ssl
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final
from urllib.parse import urlsplit

from context_engine.apps.dify.dify_json import plain_text, unusable
from context_engine.errors import ConfigError
from context_engine.secrecy import MASK, hide

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z ]*CERTIFICATE)-----(.*?)-----END \1-----", re.DOTALL)
_PRIVATE: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_MOST_CHARACTERS: Final = 262_144
_DER: Final = b"\x30"
_FIELD: Final = "ca_certificate"


def read_certificates(text: str) -> str:
    """Return certificates as PEM that OpenSSL reads.

    Args:
        text: one or more PEM certificates, their line breaks kept, lost or written as \\n; or base64 of a PEM file
            or of one DER certificate.

    Raises:
        ConfigError: no readable certificate, or a private key.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ConfigError("is too long for certificates", key=_FIELD)
    pem = _as_pem(text.replace("\\r", "").replace("\\n", "\n"))
    if _PRIVATE.search(pem):
        raise ConfigError("holds a private key: give the certificates of the authority only", key=_FIELD)
    blocks = [ssl.DER_cert_to_PEM_cert(_decoded(body)) for _, body in _BLOCK.findall(pem)]
    if not blocks:
        raise ConfigError("holds no certificate: give PEM (-----BEGIN CERTIFICATE-----) or base64 of it", key=_FIELD)
    joined = "".join(blocks)
    try:
        ssl.create_default_context(cadata=joined)
        readable = True
    except (ssl.SSLError, ValueError):
        readable = False
    if not readable:
        raise ConfigError("cannot be read as a certificate: was it pasted whole?", key=_FIELD)
    return joined


def _as_pem(text: str) -> str:
    if "-----BEGIN" in text:
        return text
    content = _decoded(text)
    if content.startswith(_DER):
        return ssl.DER_cert_to_PEM_cert(content)
    return content.decode("utf-8", "replace")


def _decoded(text: str) -> bytes:
    packed = re.sub(r"\s+", "", text)
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        problem = "is neither PEM nor base64: paste the certificate whole"
    raise ConfigError(problem, key=_FIELD)


_SHORTEST_SECRET: Final = 4
_MOST_CONNECTIONS: Final = 1000


@dataclass(frozen=True, slots=True, kw_only=True, repr=False)
class Credentials:
    """The values typed into the plugin's form; None for an empty field.

    Attributes:
        variables: `${NAME}` -> value.
        domains: the settings line.
        max_connections: calls to Dify at once, 1 to 1000.
        demo_bank: whether to search the fictitious bank.
        access_token: of an endpoint; not part of the engine's identity.
        server_url: of a server that answers instead of an engine in the plugin's process.
        server_token: for that server.
    """

    base_url: str | None = None
    api_key: str | None = None
    ca_certificate: str | None = None
    proxy: str | None = None
    domains: str | None = None
    variables: Mapping[str, str] = field(default_factory=lambda: MappingProxyType({}))
    max_connections: int | None = None
    demo_bank: bool = False
    access_token: str | None = None
    server_url: str | None = None
    server_token: str | None = None

    @classmethod
    def read(cls, fields: Mapping[str, Any]) -> Credentials:
        """Read the form: dify_base_url, dify_api_key, ca_certificate, proxy, domains, variables, max_connections,
        demo_bank, access_token, server_url and server_token.

        Raises:
            ConfigError: a field is not text, `variables` is not a JSON object of names and texts, or `max_connections`
                is out of range.
        """
        return cls(
            base_url=_text(fields, "dify_base_url"),
            api_key=_text(fields, "dify_api_key"),
            ca_certificate=_text(fields, "ca_certificate"),
            proxy=_text(fields, "proxy"),
            domains=_text(fields, "domains"),
            variables=MappingProxyType(_variables(_text(fields, "variables"))),
            max_connections=_count(fields, "max_connections"),
            demo_bank=_flag(fields, "demo_bank"),
            access_token=_text(fields, "access_token"),
            server_url=_text(fields, "server_url"),
            server_token=_text(fields, "server_token"),
        )

    def __repr__(self) -> str:
        return f"Credentials({MASK})"

    @property
    def fingerprint(self) -> str:
        """A SHA-256 in hex that identifies the credentials without revealing them, for cache keys."""
        parts: list[Any] = [self.base_url, self.api_key, self.ca_certificate, self.proxy, self.domains, self.demo_bank]
        parts += [self.max_connections, self.server_url, self.server_token]
        text = json.dumps([*parts, sorted(self.variables.items())])
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()

    @property
    def redactor(self) -> Redactor:
        """Masks these credentials in texts."""
        typed = (self.api_key, self.access_token, self.server_token, self.proxy, _user_of(self.proxy))
        return Redactor((*typed, *self.variables.values()))


class Redactor:
    """Masks secrets in texts.

    Args:
        secrets: texts to mask; None and texts shorter than four characters are ignored.
    """

    def __init__(self, secrets: tuple[str | None, ...] = ()) -> None:
        known = {secret for secret in secrets if secret is not None and len(secret) >= _SHORTEST_SECRET}
        self._secrets = sorted(known, key=len, reverse=True)

    def __repr__(self) -> str:
        return f"Redactor({len(self._secrets)} secrets)"

    def hide(self, text: str) -> str:
        """Replace each secret, and every key in use, by a mask."""
        for secret in self._secrets:
            text = text.replace(secret, MASK)
        return hide(text)


def read_flag(value: Any, otherwise: bool) -> bool:
    """Return a checkbox's value in any form that Dify sends; `otherwise` if it is empty.

    >>> read_flag("false", True), read_flag(1, False), read_flag("", True)
    (False, True, True)
    """
    text = "" if value is None else str(value).strip().casefold()
    return text in ("true", "1", "1.0", "yes", "on") if text else otherwise


def _text(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field's text, None if absent or blank; a number counts as text. Errors never show the value."""
    value = fields.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, str | int | float) or unusable(value):
        raise ConfigError(f"must be a text, got {type(value).__name__}", key=name)
    text = str(value).strip()
    if "\x00" in text or plain_text(text) != text:
        raise ConfigError("holds binary data (NUL or lone surrogates): paste it as text", key=name)
    return text or None


def _flag(fields: Mapping[str, Any], name: str) -> bool:
    value = fields.get(name)
    if isinstance(value, list | Mapping) or unusable(value):
        raise ConfigError(f"must be true or false, got {type(value).__name__}", key=name)
    return read_flag(value, False)


def _count(fields: Mapping[str, Any], name: str) -> int | None:
    raw = fields.get(name)
    digits = "" if raw is None else str(raw).strip().removesuffix(".0")
    if not digits:
        return None
    usable = digits.isascii() and digits.isdecimal() and len(digits) < 5
    if not usable or not 1 <= int(digits) <= _MOST_CONNECTIONS:
        raise ConfigError(f"must be a whole number from 1 to {_MOST_CONNECTIONS}, or empty", key=name)
    return int(digits)


def _user_of(url: str | None) -> str | None:
    try:
        return None if url is None else urlsplit(url).password
    except ValueError:
        return None


def _variables(text: str | None) -> dict[str, str]:
    if text is None:
        return {}
    try:
        value = json.loads(text, strict=False)
        readable = isinstance(value, dict)
    except (ValueError, RecursionError):
        readable = False
    if not readable:
        raise ConfigError('is not a JSON object: write {"NAME": "value", ...} on one line', key="variables")
    for name, variable in value.items():
        if isinstance(variable, bool) or not isinstance(variable, str | int | float):
            raise ConfigError("must be a text or a number", key=f"variables.{name}")
    return {name: str(variable) for name, variable in value.items()}
