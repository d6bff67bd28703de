"""Keyed pseudonyms for callers and questions, and the caller as an entry describes them."""

from __future__ import annotations

import hashlib
import hmac
from typing import Any, Final

from context_engine.core.models import Caller, Principal

_CALLER_BYTES: Final = 16


class Pseudonyms:
    """Keyed names, made with HMAC-SHA256 (RFC 2104).

    Args:
        secret: derived from the audit key; where there is none, the ledger's salt: whoever has the ledger can then try
            names and questions out.
    """

    def __init__(self, secret: bytes) -> None:
        self._secret = secret

    def of_caller(self, identity: str) -> str:
        """Return the pseudonym of a caller, 32 hex digits."""
        return self._mac(b"caller", identity)[:_CALLER_BYTES].hex()

    def of_query(self, query: str) -> str:
        """Return what a question can be recognised by, 64 hex digits."""
        return self._mac(b"query", query).hex()

    def seal_secret(self, query: str) -> bytes:
        """Return what only those can make who have both the ledger's secret and the very question, 32 bytes."""
        return self._mac(b"seal", query)

    def _mac(self, use: bytes, text: str) -> bytes:
        message = use + b"\x00" + text.encode("utf-8", "surrogatepass")
        return hmac.digest(self._secret, message, hashlib.sha256)


def described_caller(principal: Principal, caller: Caller, pseudonyms: Pseudonyms) -> dict[str, Any]:
    """Return who asked: the principal where one was authenticated, else whom the call names as its caller.

    `for` is the pseudonym of the person on whose behalf the call says it is, where it names one.
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
