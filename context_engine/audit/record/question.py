"""The caller of a record as a pseudonym; its question as text, encrypted under the question itself, or not stored."""

from __future__ import annotations

import hashlib
import hmac
import secrets
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from context_engine.audit.record.exact import json_bytes, read_json
from context_engine.audit.record.packed import packed_question, unpacked_question
from context_engine.audit.values import Addendum
from context_engine.core.models import Caller, Principal
from context_engine.errors import MissingExtra, QueryNotRecorded

if TYPE_CHECKING:  # the extra `audit` is imported at the first sealed question
    from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

_CALLER_BYTES: Final = 16


class Pseudonyms:
    """Keyed pseudonyms, made with HMAC-SHA256 (RFC 2104).

    Args:
        secret: derived from the audit key. Without a key it is the ledger's salt; then anybody who has the ledger can
            test names and questions.
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


QUESTION: Final = "question"
ANSWER: Final = "answer"

_SEALED: Final = b"sealed1\x00"
_NONCE_BYTES: Final = 12
_KEY_BYTES: Final = 32
_SEAL_INFO: Final = b"context-engine audit question"

QueryForm = Literal["text", "digest", "none"]


def kept_as(kept: QueryForm, query: str, pseudonyms: Pseudonyms) -> dict[str, str]:
    """Return an entry's statement about its question."""
    return {"kept": kept, "digest": pseudonyms.of_query(query)} if kept == "digest" else {"kept": kept}


def question_addendum(
    question: Mapping[str, Any], kept: QueryForm, query: str, pseudonyms: Pseudonyms, record_id: str
) -> dict[str, Addendum]:
    """Return the addendum of a question by its name; {} if it is not kept."""
    return _kept_addendum(QUESTION, json_bytes(packed_question(question)), kept, query, pseudonyms, record_id)


def answer_addendum(
    answer: Mapping[str, Any], kept: QueryForm, query: str, pseudonyms: Pseudonyms, record_id: str
) -> dict[str, Addendum]:
    """Return the addendum of an answer's words by its name; they are kept as the question is."""
    return _kept_addendum(ANSWER, json_bytes(answer), kept, query, pseudonyms, record_id)


def _kept_addendum(
    kind: str, data: bytes, kept: QueryForm, query: str, pseudonyms: Pseudonyms, record_id: str
) -> dict[str, Addendum]:
    if kept == "none":
        return {}
    if kept == "digest":
        data = _SEALED + _sealed(data, pseudonyms.seal_secret(query), record_id)
    return {kind: Addendum.of(kind, data)}


def read_question(
    data: bytes, record_id: str, *, query: str | None = None, pseudonyms: Sequence[Pseudonyms] = ()
) -> dict[str, Any]:
    """Restore a question.

    Args:
        query: the question itself, needed if it is sealed.

    Raises:
        QueryNotRecorded: it is sealed, and the query is missing or another one.
        Unreadable: this version does not write such data.
    """
    return unpacked_question(read_kept(data, record_id, query=query, pseudonyms=pseudonyms))


def read_kept(
    data: bytes, record_id: str, *, query: str | None = None, pseudonyms: Sequence[Pseudonyms] = ()
) -> dict[str, Any]:
    """Restore the JSON object of an addendum, which is sealed or open as its question is.

    Args:
        query: the question itself, needed if it is sealed.

    Raises:
        QueryNotRecorded: it is sealed, and the query is missing or another one.
        Unreadable: this version does not write such data.
    """
    if not data.startswith(_SEALED):
        return read_json(data)
    if query is None:
        raise QueryNotRecorded(
            f"record {record_id}: only a digest of its question was kept: give the question itself (--query)"
        )
    for names in pseudonyms:
        opened = _unsealed(data[len(_SEALED) :], names.seal_secret(query), record_id)
        if opened is not None:
            return read_json(opened)
    raise QueryNotRecorded(f"record {record_id}: its question is another one, or it was sealed under another audit key")


def _sealed(data: bytes, secret: bytes, record_id: str) -> bytes:
    """Encrypt bytes for `_unsealed` with the same secret and record id."""
    nonce = secrets.token_bytes(_NONCE_BYTES)
    return nonce + _cipher(secret, record_id).encrypt(nonce, data, record_id.encode())


def _unsealed(data: bytes, secret: bytes, record_id: str) -> bytes | None:
    """Decrypt sealed bytes; None if secret or record differ, or the bytes were changed."""
    nonce, body = data[:_NONCE_BYTES], data[_NONCE_BYTES:]
    cipher = _cipher(secret, record_id)
    from cryptography.exceptions import InvalidTag

    try:
        return cipher.decrypt(nonce, body, record_id.encode())
    except (InvalidTag, ValueError):
        return None


def _cipher(secret: bytes, record_id: str) -> ChaCha20Poly1305:
    """Return the cipher of one record.

    Raises:
        MissingExtra: the extra `audit` is not installed.
    """
    try:
        from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF
    except ImportError:
        raise MissingExtra("the audit ledger", "audit") from None
    key = HKDF(algorithm=SHA256(), length=_KEY_BYTES, salt=record_id.encode(), info=_SEAL_INFO).derive(secret)
    return ChaCha20Poly1305(key)
