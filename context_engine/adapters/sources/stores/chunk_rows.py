"""Chunks as stored rows, and rows as chunks: a digest proves a row unchanged, the access class says where it lies."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any, Final, NamedTuple

from context_engine.core.models import (
    AccessClass,
    Chunk,
    Classification,
    FetchedAtBasis,
    SourceSpec,
    SourceType,
    TrustClass,
)
from context_engine.core.policy.access import access_class
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest, StoreCorrupt

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


def document_rows(
    chunks: Sequence[Chunk],
    document_id: str,
    version: str,
    taken: Callable[[list[str]], Mapping[str, tuple[str, str]]],
) -> list[ChunkRow]:
    """Return the rows of a document; a chunk without an id whose text occurs already gets an id from its place.

    Args:
        taken: from ids to {id: (document_id, version)} of those that another document of the source has.

    Raises:
        InvalidRequest: a chunk cannot be stored, or its id exists in the source.
    """
    rows = [encode(chunk, document_id, version) for chunk in chunks]
    holders = dict(taken([row.chunk_id for row in rows]))
    out = []
    for number, (chunk, row) in enumerate(zip(chunks, rows, strict=True)):
        if holder := holders.get(row.chunk_id):
            if chunk.chunk_id:
                raise id_taken(document_id, row.chunk_id, holder)
            own = content_sha256("\0".join((document_id, version, str(number), chunk.content)))
            row = encode(chunk._replace(chunk_id=own), document_id, version)
        holders[row.chunk_id] = (document_id, version)
        out.append(row)
    return out


def file_of(chunks: Sequence[Chunk]) -> str | None:
    """Return the path of a document's file; None if its chunks do not state it."""
    file = chunks[0].metadata.get("source_file") if chunks else None
    return file if isinstance(file, str) else None


def id_taken(document_id: str, chunk_id: str, holder: tuple[str, str]) -> InvalidRequest:
    """Return the error for a chunk id that a document of the source has already.

    Args:
        holder: the document and its version.
    """
    return InvalidRequest(
        f"document {document_id!r}: chunk id {chunk_id!r} is in document {holder[0]!r} version {holder[1]!r} already: "
        "give each chunk of a source a unique id"
    )


def decode(row: tuple[str, str, str], indexed_at: str) -> Chunk:
    """Return the chunk of (chunk_id, content, fields).

    A missing `fetched_at` is taken from its metadata, as the origin's, or else from `indexed_at`.
    """
    chunk_id, content, text = row
    fields = _fields(text)
    if "fetched_at" not in fields:
        origin = _moment(fields.get("metadata", {}).get("fetched_at"))
        fields["fetched_at"] = origin or datetime.fromisoformat(indexed_at)
        fields["fetched_at_basis"] = FetchedAtBasis.ORIGIN if origin else FetchedAtBasis.INDEXED
    return Chunk(content=content, chunk_id=chunk_id, **fields)


def as_written(row: ChunkRow) -> Chunk:
    """Return the chunk of a row whose `encode` is this row again.

    Raises:
        StoreCorrupt: the row is not as it was written.
    """
    if digest(row.chunk_id.encode(), row.content.encode(), row.fields.encode()) != row.digest:
        raise StoreCorrupt(f"chunk {row.chunk_id!r} is damaged: ingest its document again")
    return Chunk(content=row.content, chunk_id=row.chunk_id, **_fields(row.fields))


def _fields(text: str) -> dict[str, Any]:
    fields: dict[str, Any] = json.loads(text)
    for name in _READERS.keys() & fields.keys():
        fields[name] = _READERS[name](fields[name])
    return fields


def digest(chunk_id: bytes, content: bytes, fields: bytes) -> bytes:
    """Return the SHA-256 that proves a row unchanged; the arguments are UTF-8."""
    return hashlib.sha256(b"\0".join((chunk_id, fields, content))).digest()


def canonical(value: Any) -> str:
    """Return a JSON text that is the same for equal values; dates become ISO texts.

    Raises:
        TypeError, ValueError: the value cannot be written as JSON.
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


class SourcePlace(NamedTuple):
    """Who may read a source, according to the configuration.

    Attributes:
        rules: all of its access rules (`AccessPolicy.rules_of`), or "".
        classification: the declared one.
    """

    rules: str = ""
    classification: Classification = Classification.INTERNAL

    def holds(self, claimed: Classification | None) -> AccessClass:
        """Return the class of a document of the source."""
        return access_class(self.rules, self.classification, claimed)


Place = Callable[[str], SourcePlace | None]


"""From a source's id to its place; None if unknown."""


def places(specs: Iterable[SourceSpec], rules_of: Callable[[str], str]) -> Place:
    """Return the places of some sources."""
    return {spec.id: SourcePlace(rules_of(spec.id), spec.classification) for spec in specs}.get


def claimed_by(chunks: Iterable[Chunk]) -> Classification | None:
    """Return the highest classification claimed by a chunk of a document, which is placed as a whole."""
    claims = (chunk.classification for chunk in chunks if chunk.classification is not None)
    return max(claims, key=lambda claim: claim.rank, default=None)
