"""Which document and text each candidate of a search is of: what answers are found by later."""

from __future__ import annotations

from typing import Any, Final

from context_engine.core.models import Chunk, Key, SearchResult
from context_engine.core.text import content_sha256

IDENTITY_COLUMNS: Final = ("document_id", "document_version", "content_sha256")
_UNKNOWN: Final = (None, None, None)
_Identity = tuple[str | None, str | None, str | None]


def candidate_identities(result: SearchResult) -> dict[str, list[Any]]:
    """Return document, version and SHA-256 of the text of each candidate, in the order of the fates, as columns."""
    known = _identities(result)
    found = [known.get((fate.source_id, fate.chunk_id), _UNKNOWN) for fate in result.fates]
    return {name: list(column) for name, column in zip(IDENTITY_COLUMNS, zip(*found))}


def _identities(result: SearchResult) -> dict[Key, _Identity]:
    """Return the identities by key; texts that share a chunk id are told apart as the pool of candidates does it."""
    speaks = {spec.id: spec.trust_document_metadata for spec in result.specs}
    known: dict[Key, _Identity] = {}
    texts: dict[Key, dict[str, _Identity]] = {}
    for answer in result.raw:
        for chunk in answer.chunks:
            identity = _identity(chunk)
            sha256 = str(identity[2])
            own = chunk.source_id if chunk.source_id and speaks.get(answer.source_id) else answer.source_id
            key = (own, chunk.chunk_id or sha256[:32])
            if known.setdefault(key, identity)[2] != sha256:
                texts.setdefault(key, {str(known[key][2]): known[key]})[sha256] = identity
    for (source_id, chunk_id), several in texts.items():
        for place, sha256 in enumerate(sorted(several)):
            known[source_id, f"{chunk_id}~{sha256[:8]}" if place else chunk_id] = several[sha256]
    return known


def _identity(chunk: Chunk) -> _Identity:
    return (chunk.document_id, chunk.document_version, content_sha256(chunk.content))
