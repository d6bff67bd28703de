"""A certificate out of a form field: PEM with or without its line breaks, or base64 on one line."""

from __future__ import annotations

import base64
import binascii
import re
import ssl
from typing import Final

from context_engine.errors import ConfigError

_BLOCK: Final = re.compile(r"-----BEGIN ([A-Z ]*CERTIFICATE)-----(.*?)-----END \1-----", re.DOTALL)
_PRIVATE: Final = re.compile(r"-----BEGIN [A-Z ]*PRIVATE KEY-----")
_MOST_CHARACTERS: Final = 262_144
_DER: Final = b"\x30"


def read_certificates(text: str, *, key: str = "ca_certificate") -> str:
    """Return PEM as OpenSSL reads it.

    Args:
        text: one or more PEM certificates, their line breaks kept, lost or written as \\n; or base64 of a PEM file
            or of one DER certificate.
        key: the field's name, for messages.

    Raises:
        ConfigError: no certificate can be read in it, or it holds a private key.
    """
    if len(text) > _MOST_CHARACTERS:
        raise ConfigError("is too long for certificates", key=key)
    pem = _as_pem(text.replace("\\r", "").replace("\\n", "\n"), key)
    if _PRIVATE.search(pem):
        raise ConfigError("holds a private key: give the certificates of the authority only", key=key)
    blocks = [_block(body, key) for _, body in _BLOCK.findall(pem)]
    if not blocks:
        raise ConfigError("holds no certificate: give PEM (-----BEGIN CERTIFICATE-----) or base64 of it", key=key)
    joined = "".join(blocks)
    try:
        ssl.create_default_context(cadata=joined)
        readable = True
    except (ssl.SSLError, ValueError):
        readable = False
    if not readable:
        raise ConfigError("cannot be read as a certificate: was it pasted whole?", key=key)
    return joined


def _as_pem(text: str, key: str) -> str:
    if "-----BEGIN" in text:
        return text
    content = _decoded(text, key)
    if content.startswith(_DER):
        return ssl.DER_cert_to_PEM_cert(content)
    return content.decode("utf-8", "replace")


def _block(body: str, key: str) -> str:
    return ssl.DER_cert_to_PEM_cert(_decoded(body, key))


def _decoded(text: str, key: str) -> bytes:
    packed = re.sub(r"\s+", "", text)
    try:
        return base64.b64decode(packed + "=" * (-len(packed) % 4), validate=True)
    except (binascii.Error, ValueError):
        problem = "is neither PEM nor base64: paste the certificate whole"
    raise ConfigError(problem, key=key)
