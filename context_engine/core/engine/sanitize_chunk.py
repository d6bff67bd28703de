"""Sanitising: chunks, notices and errors of a source, made such that every output can hold them.

Text becomes valid, short texts stay short, metadata is bounded. Ids are changed so that they still differ.
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
    """Return a chunk of valid text and bounded metadata; itself where there is nothing to change."""
    return _with_bounded_data(_with_valid_text(chunk, notices), notices)


def is_valid_scorer(value: Any) -> bool:
    """Return whether a value may name who computed a score."""
    return value is None or (isinstance(value, str) and len(value) <= _MOST_FIELD and is_valid_text(value))


def sanitized_notice(note: Any, source_id: str) -> Notice:
    """Return a note of a source as a notice: texts of bounded length without secrets, values that JSON can hold.

    Args:
        note: a notice; a text becomes one of code `source_note`.
        source_id: the subject where the source names none.
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
    """Return words of a source as a text of bounded length without keys."""
    text = note if isinstance(note, str) else excerpt(note)
    return sanitized_text(hide_in_error(text[:_MOST_FIELD]))


def excerpt(value: Any) -> str:
    """Return an excerpt of a value's text, for a notice; a value may refuse to be written."""
    try:
        return sanitized_text(repr(value)[:60])
    except Exception:  # noqa: BLE001  whatever an object of another does when it is asked for its text
        return f"of type {type(value).__name__}"


def sanitized_error(error: SourceError) -> SourceError:
    """Return an error of a source whose message every output can hold."""
    error.args = tuple(_bounded_text(arg) for arg in error.args)
    return error


def _with_valid_text(chunk: Chunk, notices: list[Notice]) -> Chunk:
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
        len(path) <= _MOST_HEADINGS and all(len(heading) <= _MOST_FIELD and is_valid_text(heading) for heading in path)
    ):
        changed["heading_path"] = tuple(sanitized_text(heading[:_MOST_FIELD]) for heading in path[:_MOST_HEADINGS])
    if not changed:
        return chunk
    chunk = chunk._replace(**changed)
    message = (
        f"chunk {chunk_label(chunk)}: {', '.join(changed)} held characters that are not valid Unicode, or NUL, or too "
        "many: they were replaced or cut"
    )
    detail = {"chunk_id": chunk.chunk_id, "fields": list(changed)}
    notices.append(Notice(NoticeCode.TEXT_REPAIRED, "", message, detail))
    return chunk


def _with_bounded_data(chunk: Chunk, notices: list[Notice]) -> Chunk:
    """Bound metadata and extra, and make what they hold valid."""
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
    """Return an id as it is, or its beginning with a digest of the whole of one that is too long."""
    if len(text) <= _MOST_FIELD:
        return text
    return f"{text[:200]}…{sha256(text.encode()).hexdigest()[:16]}"


def chunk_label(chunk: Chunk) -> str:
    """Return what a chunk is called in a message."""
    return chunk_id_of(chunk) or "without id"


def chunk_id_of(chunk: Chunk) -> str:
    """Return the id of a chunk that was not looked at yet, or its beginning; "" where it has none."""
    name: Any = chunk.chunk_id
    return sanitized_text(name[:200]) if isinstance(name, str) else ""
