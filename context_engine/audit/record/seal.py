"""Sealing: bytes that only those can read who bring the question they belong to, and the ledger's secret.

ChaCha20-Poly1305 (RFC 8439) under a key of HKDF-SHA256 (RFC 5869); the id of the record is salt and associated data, so
that no two records share a key and a sealed part fits no other record.
"""

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
    """Return bytes that `unsealed` reads with the same secret and record id."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _cipher(secret, record_id).encrypt(nonce, data, record_id.encode())


def unsealed(data: bytes, secret: bytes, record_id: str) -> bytes | None:
    """Return what was sealed; None where the secret or the record is another, or the bytes were changed."""
    nonce, body = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
    try:
        return _cipher(secret, record_id).decrypt(nonce, body, record_id.encode())
    except (InvalidTag, ValueError):
        return None


def _cipher(secret: bytes, record_id: str) -> ChaCha20Poly1305:
    key = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=record_id.encode(), info=_INFO).derive(secret)
    return ChaCha20Poly1305(key)
