"""Sanitising: chunks, notes and errors of a source, made such that every output can hold them.

Text becomes valid, short texts stay short, metadata is bounded. Ids are changed so that they still differ.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from context_engine.core.models import Chunk, is_valid_text, sanitized_id, sanitized_mapping, sanitized_text
from context_engine.errors import SourceError
from context_engine.secrecy import hide_in_error

__all__ = ["chunk_label", "excerpt", "is_valid_scorer", "sanitized_chunk", "sanitized_error", "sanitized_note"]

_MOST_FIELD: Final = 2_000
"""Most characters of an id, title, section or heading."""
_MOST_HEADINGS: Final = 100
_IDS: Final = frozenset(("chunk_id", "source_id", "document_id", "document_version", "dataset_id", "superseded_by"))
_TEXTS: Final = tuple((Chunk._fields.index(name), name) for name in (*sorted(_IDS), "title", "section", "doc_type"))


def sanitized_chunk(chunk: Chunk, notes: list[str]) -> Chunk:
    """Return a chunk of valid text and bounded metadata; itself where there is nothing to change.

    Args:
        chunk: its fields are of their types.
        notes: takes a sentence for whatever was changed.
    """
    return _with_bounded_data(_with_valid_text(chunk, notes), notes)


def is_valid_scorer(value: Any) -> bool:
    """Return whether a value may name who computed a score."""
    return value is None or (isinstance(value, str) and len(value) <= _MOST_FIELD and is_valid_text(value))


def sanitized_note(note: Any) -> str:
    """Return a note of a source as valid text of bounded length, without secrets."""
    text = note if isinstance(note, str) else excerpt(note)
    return sanitized_text(hide_in_error(text[:_MOST_FIELD]))


def excerpt(value: Any) -> str:
    """Return an excerpt of a value's text, for a note; a value may refuse to be written."""
    try:
        return sanitized_text(repr(value)[:60])
    except Exception:  # noqa: BLE001  whatever an object of another does when it is asked for its text
        return f"of type {type(value).__name__}"


def sanitized_error(error: SourceError) -> SourceError:
    """Return an error of a source whose message every output can hold."""
    error.args = tuple(sanitized_note(one) for one in error.args)
    return error


def _with_valid_text(chunk: Chunk, notes: list[str]) -> Chunk:
    """Make every text valid and every short one short: ids so that they still differ."""
    changed: dict[str, Any] = {}
    if not is_valid_text(chunk.content):
        changed["content"] = sanitized_text(chunk.content)
    for index, name in _TEXTS:
        text: Any = chunk[index]
        if text and not (len(text) <= _MOST_FIELD and is_valid_text(text)):
            changed[name] = _short_id(sanitized_id(text)) if name in _IDS else sanitized_text(text[:_MOST_FIELD])
    path = chunk.heading_path
    if path and not (
        len(path) <= _MOST_HEADINGS and all(len(one) <= _MOST_FIELD and is_valid_text(one) for one in path)
    ):
        changed["heading_path"] = tuple(sanitized_text(one[:_MOST_FIELD]) for one in path[:_MOST_HEADINGS])
    if not changed:
        return chunk
    chunk = chunk._replace(**changed)
    notes.append(
        f"chunk {chunk_label(chunk)}: {', '.join(changed)} held characters that are not valid Unicode, or NUL, or too "
        "many: they were replaced or cut"
    )
    return chunk


def _with_bounded_data(chunk: Chunk, notes: list[str]) -> Chunk:
    """Bound metadata and extra, and make what they hold valid."""
    metadata, of_metadata = sanitized_mapping(chunk.metadata) if chunk.metadata else (chunk.metadata, ())
    extra, of_extra = sanitized_mapping(chunk.extra) if chunk.extra else (chunk.extra, ())
    notes += [f"chunk {chunk_label(chunk)}: metadata {one}" for one in of_metadata]
    notes += [f"chunk {chunk_label(chunk)}: extra {one}" for one in of_extra]
    if metadata is chunk.metadata and extra is chunk.extra:
        return chunk
    return chunk._replace(metadata=metadata, extra=extra)


def _short_id(text: str) -> str:
    """Return an id as it is, or its beginning with a digest of the whole of one that is too long."""
    if len(text) <= _MOST_FIELD:
        return text
    return f"{text[:200]}…{sha256(text.encode()).hexdigest()[:16]}"


def chunk_label(chunk: Chunk) -> str:
    """Return how a note names a chunk."""
    name = chunk.chunk_id
    return sanitized_text(name[:200]) if isinstance(name, str) and name else "without id"
