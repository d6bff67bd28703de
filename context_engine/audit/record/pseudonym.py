"""Keyed pseudonyms for callers and questions, and the caller as an entry describes them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Final

from context_engine.core.models import Caller, Principal

_CALLER_BYTES: Final = 16


class Pseudonyms:
    """Keyed pseudonyms, made with HMAC-SHA256 (RFC 2104).

    Args:
        secret: derived from the audit key; without one the ledger's salt, and then whoever has the ledger can test
            names and questions.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of_caller(self, identity: str) -> str:
        """Return the pseudonym of a caller, 32 hex digits."""
        return self._mac(b"caller", identity)[:_CALLER_BYTES].hex()

    def of_query(self, query: str) -> str:
        """Return the digest of a question, 64 hex digits."""
        return self._mac(b"query", query).hex()

    def seal_secret(self, query: str) -> bytes:
        """Return a secret of 32 bytes that requires both the ledger's secret and the exact question."""
        return self._mac(b"seal", query)

    def _mac(self, use: bytes, text: str) -> bytes:
        message = use + b"\x00" + text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, message, hashlib.sha256)


def described_caller(principal: Principal, caller: Caller, pseudonyms: Pseudonyms) -> dict[str, Any]:
    """Describe the caller: the authenticated principal, else the caller named in the call.

    `for` is the pseudonym of the person on whose behalf the call is made, if it names one.
    """
    identity = principal.id or caller.principal
    described: dict[str, Any] = {
        "pseudonym": pseudonyms.of_caller(identity) if identity else None,
        "roles": sorted(principal.roles),
        "groups": sorted(principal.groups),
        "clearance": principal.clearance,
    }
    if caller.on_behalf_of:
        described["for"] = pseudonyms.of_caller(caller.on_behalf_of)
    return described
