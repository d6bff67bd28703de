"""Conversion of chunks to rows and back; detection of damaged rows."""

from __future__ import annotations

import hashlib
import json
import sqlite3
from collections.abc import Iterator
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

from context_engine.core.models import Chunk, Classification, FetchedAtBasis, SourceType, TrustClass
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

_APART: Final = ("content", "chunk_id", "scores", "source_id")
_STORED: Final = tuple(name for name in Chunk._fields if name not in _APART)

_READERS: Final[dict[str, Any]] = {
    "heading_path": tuple,
    "span": tuple,
    "source_type": SourceType,
    "trust_class": TrustClass,
    "classification": Classification,
    "fetched_at": datetime.fromisoformat,
    "fetched_at_basis": FetchedAtBasis,
    "effective_from": date.fromisoformat,
    "effective_to": date.fromisoformat,
}


class ChunkRow(NamedTuple):
    """A stored chunk: its id, its text, its other fields as JSON, and a digest of all three."""

    chunk_id: str
    content: str
    fields: str
    digest: bytes


def encode(chunk: Chunk, document_id: str, version: str) -> ChunkRow:
    """Return the row of a chunk; scores are not stored, and the text's hash replaces a missing id.

    Raises:
        InvalidRequest: no text, text that is not Unicode, or metadata that JSON cannot represent.
    """
    where = f"document {document_id!r}, chunk {chunk.position if chunk.chunk_id == '' else chunk.chunk_id!r}"
    if not isinstance(chunk.content, str) or not chunk.content.strip():
        raise InvalidRequest(f"{where}: the chunk has no text")
    chunk = chunk._replace(
        chunk_id=chunk.chunk_id or content_sha256(chunk.content),
        document_id=chunk.document_id or document_id,
        document_version=chunk.document_version or version or None,
        metadata=dict(chunk.metadata),
        extra=dict(chunk.extra),
    )
    kept = {name: value for name in _STORED if (value := getattr(chunk, name)) not in (None, (), "", {})}
    try:
        fields = canonical(kept)
        proof = digest(chunk.chunk_id.encode(), chunk.content.encode(), fields.encode())
        return ChunkRow(chunk.chunk_id, chunk.content, fields, proof)
    except (TypeError, ValueError) as error:
        raise InvalidRequest(f"{where}: cannot be stored: {error}") from error


def decode(row: tuple[str, str, str], indexed_at: str) -> Chunk:
    """Return the chunk of (chunk_id, content, fields).

    A missing `fetched_at` is taken from its metadata, as the origin's, or else from `indexed_at`.
    """
    chunk_id, content, text = row
    fields: dict[str, Any] = json.loads(text)
    for name in _READERS.keys() & fields.keys():
        fields[name] = _READERS[name](fields[name])
    if "fetched_at" not in fields:
        origin = _moment(fields.get("metadata", {}).get("fetched_at"))
        fields["fetched_at"] = origin or datetime.fromisoformat(indexed_at)
        fields["fetched_at_basis"] = FetchedAtBasis.ORIGIN if origin else FetchedAtBasis.INDEXED
    return Chunk(content=content, chunk_id=chunk_id, **fields)


def digest(chunk_id: bytes, content: bytes, fields: bytes) -> bytes:
    """Return the SHA-256 that proves a row unchanged; the arguments are UTF-8."""
    return hashlib.sha256(b"\0".join((chunk_id, fields, content))).digest()


def canonical(value: Any) -> str:
    """Return one JSON text for equal values; dates as ISO texts.

    Raises:
        TypeError, ValueError: JSON cannot hold the value.
    """
    return json.dumps(value, ensure_ascii=False, allow_nan=False, sort_keys=True, separators=(",", ":"), default=_iso)


def _iso(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    raise TypeError(f"{type(value).__name__} is not a JSON value")


def _moment(value: Any) -> datetime | None:
    try:
        moment = datetime.fromisoformat(value)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)


def changed_rows(connection: sqlite3.Connection) -> Iterator[int]:
    """Yield the `rid` of every chunk with a wrong digest; bytes are hashed, so that even invalid text is readable."""
    rows = connection.execute(
        "SELECT rid, CAST(chunk_id AS BLOB), CAST(content AS BLOB), CAST(fields AS BLOB), digest FROM chunks"
    )
    return (rid for rid, chunk_id, content, fields, kept in rows if digest(chunk_id, content, fields) != kept)


def give_up(connection: sqlite3.Connection) -> tuple[frozenset[int], int]:
    """Clear the content hash of damaged documents, so that the next ingestion writes them again.

    A document is damaged if a row has changed, or if the number of rows differs; rows without a document are deleted.
    The caller holds the transaction.

    Returns:
        The changed rows, and the number of documents to be ingested again.
    """
    connection.execute("DELETE FROM chunks WHERE doc_key NOT IN (SELECT doc_key FROM documents)")
    changed = frozenset(changed_rows(connection))
    forget = "UPDATE documents SET content_hash = '' WHERE removed IS NULL AND content_hash <> '' AND "
    for rid in changed:
        connection.execute(f"{forget} doc_key = (SELECT doc_key FROM chunks WHERE rid = ?)", (rid,))
    connection.execute(
        f"{forget} chunk_count <> (SELECT count(*) FROM chunks WHERE chunks.doc_key = documents.doc_key)"
    )
    (count,) = connection.execute(
        "SELECT count(*) FROM documents WHERE removed IS NULL AND content_hash = ''"
    ).fetchone()
    return changed, int(count)
