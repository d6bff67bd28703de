"""Encrypts a question under a secret that only the question itself opens."""

from __future__ import annotations

import secrets
from typing import Final

from context_engine.errors import MissingExtra

try:
    from cryptography.exceptions import InvalidTag
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF
except ImportError:
    raise MissingExtra("the audit ledger", "audit") from None

_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_INFO: Final = b"context-engine audit question"


def sealed(data: bytes, secret: bytes, record_id: str) -> bytes:
    """Encrypt bytes for `unsealed` with the same secret and record id."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _cipher(secret, record_id).encrypt(nonce, data, record_id.encode())


def unsealed(data: bytes, secret: bytes, record_id: str) -> bytes | None:
    """Decrypt sealed bytes; None if secret or record differ, or the bytes were changed."""
    nonce, body = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
    try:
        return _cipher(secret, record_id).decrypt(nonce, body, record_id.encode())
    except (InvalidTag, ValueError):
        return None


def _cipher(secret: bytes, record_id: str) -> ChaCha20Poly1305:
    key = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=record_id.encode(), info=_INFO).derive(secret)
    return ChaCha20Poly1305(key)
