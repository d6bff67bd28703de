"""Chunks, notes and errors of a source, made such that every output can hold them.

Text becomes valid, short texts stay short, metadata is bounded. Ids are changed so that they still differ.
"""

from __future__ import annotations

from hashlib import sha256
from typing import Any, Final

from context_engine.core.models import Chunk, is_sound_text, sound_id, sound_mapping, sound_text
from context_engine.errors import SourceError
from context_engine.secrecy import hide_in_error

__all__ = ["beginning", "is_scorer", "name_of", "sound_chunk", "sound_note", "with_sound_words"]

_MOST_FIELD: Final = 2_000
"""Most characters of an id, title, section or heading."""
_MOST_HEADINGS: Final = 100
_IDS: Final = frozenset(("chunk_id", "source_id", "document_id", "document_version", "dataset_id", "superseded_by"))
_TEXTS: Final = tuple((Chunk._fields.index(name), name) for name in (*sorted(_IDS), "title", "section", "doc_type"))


def sound_chunk(chunk: Chunk, notes: list[str]) -> Chunk:
    """Return a chunk of valid text and bounded metadata; itself where there is nothing to change.

    Args:
        chunk: its fields are of their types.
        notes: takes a sentence for whatever was changed.
    """
    return _with_sound_data(_with_sound_text(chunk, notes), notes)


def is_scorer(value: Any) -> bool:
    """Return whether a value may name who computed a score."""
    return value is None or (isinstance(value, str) and len(value) <= _MOST_FIELD and is_sound_text(value))


def sound_note(given: Any) -> str:
    """Return what a source said as a text of bounded length without keys."""
    text = given if isinstance(given, str) else beginning(given)
    return sound_text(hide_in_error(text[:_MOST_FIELD]))


def beginning(value: Any) -> str:
    """Return the beginning of a value's text, for a note; a value may refuse to be written."""
    try:
        return sound_text(repr(value)[:60])
    except Exception:  # noqa: BLE001  whatever an object of another does when it is asked for its text
        return f"of type {type(value).__name__}"


def with_sound_words(error: SourceError) -> SourceError:
    """Return an error of a source whose message every output can hold."""
    error.args = tuple(sound_note(one) for one in error.args)
    return error


def _with_sound_text(chunk: Chunk, notes: list[str]) -> Chunk:
    """Make every text valid and every short one short: ids so that they still differ."""
    changed: dict[str, Any] = {}
    if not is_sound_text(chunk.content):
        changed["content"] = sound_text(chunk.content)
    for index, name in _TEXTS:
        text: Any = chunk[index]
        if text and not (len(text) <= _MOST_FIELD and is_sound_text(text)):
            changed[name] = _short_id(sound_id(text)) if name in _IDS else sound_text(text[:_MOST_FIELD])
    path = chunk.heading_path
    if path and not (
        len(path) <= _MOST_HEADINGS and all(len(one) <= _MOST_FIELD and is_sound_text(one) for one in path)
    ):
        changed["heading_path"] = tuple(sound_text(one[:_MOST_FIELD]) for one in path[:_MOST_HEADINGS])
    if not changed:
        return chunk
    chunk = chunk._replace(**changed)
    notes.append(
        f"chunk {name_of(chunk)}: {', '.join(changed)} held characters that are not valid Unicode, or NUL, or too "
        "many: they were replaced or cut"
    )
    return chunk


def _with_sound_data(chunk: Chunk, notes: list[str]) -> Chunk:
    """Bound metadata and extra, and make what they hold valid."""
    metadata, of_metadata = sound_mapping(chunk.metadata) if chunk.metadata else (chunk.metadata, ())
    extra, of_extra = sound_mapping(chunk.extra) if chunk.extra else (chunk.extra, ())
    notes += [f"chunk {name_of(chunk)}: metadata {one}" for one in of_metadata]
    notes += [f"chunk {name_of(chunk)}: extra {one}" for one in of_extra]
    if metadata is chunk.metadata and extra is chunk.extra:
        return chunk
    return chunk._replace(metadata=metadata, extra=extra)


def _short_id(text: str) -> str:
    """Return an id as it is, or its beginning with a digest of the whole of one that is too long."""
    if len(text) <= _MOST_FIELD:
        return text
    return f"{text[:200]}…{sha256(text.encode()).hexdigest()[:16]}"


def name_of(chunk: Chunk) -> str:
    """Return what a chunk is called in a note."""
    name = chunk.chunk_id
    return sound_text(name[:200]) if isinstance(name, str) and name else "without id"
