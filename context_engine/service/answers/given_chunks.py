"""Chunks that a caller hands over: those of the RAG API's answers, read as chunk dicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

_NAMES: Final = {
    "namespace": "source_id",
    "doc_id": "document_id",
    "content_type": "doc_type",
    "provenance": "_provenance",
    "final_score": "_rag_score",
}
"""A field of the RAG API, and the key of a chunk dict that says the same."""

_METADATA: Final = {
    "canonical_url": "url",
    "source_org": "source_org",
    "year": "year",
    "content_type": "content_type",
    "license": "license",
    "tags": "tags",
}
"""A field of the RAG API, and the field of a chunk's metadata that says the same."""

_OF_THE_ANSWER: Final = frozenset(("citation_label", "flags"))
"""Said of a chunk by the answer it stood in; the flags stand in its tag as well."""


def chunk_dicts(given: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return chunks with the keys of `context_engine.rag`; what has such a key already keeps it.

    The `score` of a chunk with the tag of an answer is left out: it is relative to the others of that answer, and says
    nothing beside chunks from elsewhere.
    """
    return [_chunk_dict(chunk) for chunk in given]


def _chunk_dict(given: Mapping[str, Any]) -> dict[str, Any]:
    if not given.keys() & (_NAMES.keys() | _METADATA.keys()):
        return dict(given)
    known = {key: value for key, value in given.items() if value is not None}
    own = {key: value for key, value in known.items() if key not in {*_NAMES, *_METADATA, *_OF_THE_ANSWER}}
    named = {key: known[name] for name, key in _NAMES.items() if name in known}
    if "provenance" in known:
        own.pop("score", None)
    fields = {key: known[name] for name, key in _METADATA.items() if name in known}
    return {**named, **own, "metadata": {**fields, **(known.get("metadata") or {})}}
