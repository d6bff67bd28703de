"""Sanitising: makes chunks, notices and errors of a source valid in every output.

Text becomes valid, ids and titles are cut to a maximum length, metadata is bounded. Changed ids still differ.
"""

from __future__ import annotations

from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final

from context_engine.core.models import (
    Chunk,
    Notice,
    NoticeCode,
    is_valid_text,
    json_value,
    sanitized_id,
    sanitized_mapping,
    sanitized_text,
)
from context_engine.errors import SourceError
from context_engine.secrecy import hide_in_error

_MOST_FIELD: Final = 2_000
"""Most characters of an id, title, section or heading."""
_MOST_HEADINGS: Final = 100
_IDS: Final = frozenset(("chunk_id", "source_id", "document_id", "document_version", "dataset_id", "superseded_by"))
_TEXTS: Final = tuple((Chunk._fields.index(name), name) for name in (*sorted(_IDS), "title", "section", "doc_type"))


def sanitized_chunk(chunk: Chunk, notices: list[Notice]) -> Chunk:
    """Return the chunk with valid text and bounded metadata; the same object if nothing changes."""
    return _with_bounded_data(_with_valid_text(chunk, notices), notices)


def is_valid_scorer(value: Any) -> bool:
    """Return whether a value is a valid scorer name."""
    return value is None or (isinstance(value, str) and len(value) <= _MOST_FIELD and is_valid_text(value))


def sanitized_notice(note: Any, source_id: str) -> Notice:
    """Return a note of a source as a notice with texts of bounded length, without secrets, and with JSON values.

    Args:
        note: a notice, or a text, which becomes a notice of code `source_note`.
        source_id: the subject if the source names none.
    """
    if not isinstance(note, Notice):
        return Notice(NoticeCode.SOURCE_NOTE, source_id, _bounded_text(note))
    code = note.code if isinstance(note.code, NoticeCode) else NoticeCode.SOURCE_NOTE
    detail, _ = sanitized_mapping(note.detail) if isinstance(note.detail, Mapping) else ({}, ())
    subject = _bounded_text(note.subject) if note.subject else source_id
    return Notice(code, subject, _bounded_text(note.message), _without_keys(json_value(detail)))


def _without_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {hide_in_error(name): _without_keys(element) for name, element in value.items()}
    if isinstance(value, list):
        return [_without_keys(element) for element in value]
    return _bounded_text(value) if isinstance(value, str) else value


def _bounded_text(note: Any) -> str:
    """Return a text of a source with bounded length and without keys."""
    text = note if isinstance(note, str) else excerpt(note)
    return sanitized_text(hide_in_error(text[:_MOST_FIELD]))


def excerpt(value: Any) -> str:
    """Return an excerpt of a value's repr for a notice; the type if repr fails."""
    try:
        return sanitized_text(repr(value)[:60])
    except Exception:  # noqa: BLE001  the repr of a foreign object may raise anything
        return f"of type {type(value).__name__}"


def sanitized_error(error: SourceError) -> SourceError:
    """Return a source's error with a message that is valid in every output."""
    error.args = tuple(_bounded_text(arg) for arg in error.args)
    return error


def _with_valid_text(chunk: Chunk, notices: list[Notice]) -> Chunk:
    """Make every text valid and cut long fields; ids still differ afterwards."""
    changed: dict[str, Any] = {}
    if not is_valid_text(chunk.content):
        changed["content"] = sanitized_text(chunk.content)
    for index, name in _TEXTS:
        text: Any = chunk[index]
        if text and not (len(text) <= _MOST_FIELD and is_valid_text(text)):
            changed[name] = _short_id(sanitized_id(text)) if name in _IDS else sanitized_text(text[:_MOST_FIELD])
    path = chunk.heading_path
    if path and not (
        len(path) <= _MOST_HEADINGS and all(len(heading) <= _MOST_FIELD and is_valid_text(heading) for heading in path)
    ):
        changed["heading_path"] = tuple(sanitized_text(heading[:_MOST_FIELD]) for heading in path[:_MOST_HEADINGS])
    if not changed:
        return chunk
    chunk = chunk._replace(**changed)
    message = (
        f"chunk {chunk_label(chunk)}: {', '.join(changed)} contained invalid Unicode or NUL, or were too long: "
        "they were repaired or cut"
    )
    detail = {"chunk_id": chunk.chunk_id, "fields": list(changed)}
    notices.append(Notice(NoticeCode.TEXT_REPAIRED, "", message, detail))
    return chunk


def _with_bounded_data(chunk: Chunk, notices: list[Notice]) -> Chunk:
    """Bound metadata and extra, and make their values valid."""
    metadata, of_metadata = sanitized_mapping(chunk.metadata) if chunk.metadata else (chunk.metadata, ())
    extra, of_extra = sanitized_mapping(chunk.extra) if chunk.extra else (chunk.extra, ())
    for field, changes in (("metadata", of_metadata), ("extra", of_extra)):
        for change in changes:
            message = f"chunk {chunk_label(chunk)}: {field} {change}"
            detail = {"chunk_id": chunk.chunk_id, "field": field, "change": change}
            notices.append(Notice(NoticeCode.METADATA_REPAIRED, "", message, detail))
    if metadata is chunk.metadata and extra is chunk.extra:
        return chunk
    return chunk._replace(metadata=metadata, extra=extra)


def _short_id(text: str) -> str:
    """Return an id; one that is too long becomes its beginning and a digest of all of it."""
    if len(text) <= _MOST_FIELD:
        return text
    return f"{text[:200]}…{sha256(text.encode()).hexdigest()[:16]}"


def chunk_label(chunk: Chunk) -> str:
    """Return the name of a chunk in messages."""
    return chunk_id_of(chunk) or "without id"


def chunk_id_of(chunk: Chunk) -> str:
    """Return the (shortened) id of an unchecked chunk; "" if it has none."""
    name: Any = chunk.chunk_id
    return sanitized_text(name[:200]) if isinstance(name, str) else ""
