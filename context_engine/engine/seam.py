"""What a source gave, checked before anything trusts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from datetime import UTC, date, datetime
from functools import lru_cache
from hashlib import sha256
from itertools import islice
from typing import Any, Final, NamedTuple

from context_engine.errors import SourceError, SourceProtocolError
from context_engine.models import (
    NOTHING,
    TIERS,
    Chunk,
    Classification,
    FetchedAtBasis,
    Score,
    ScoreKind,
    SourceAnswer,
    SourceType,
    TrustClass,
    is_sound_text,
    sound_id,
    sound_mapping,
    sound_text,
    usable_score,
)
from context_engine.secrecy import hide_in_error

__all__ = ["Admitted", "admit", "usable", "with_sound_words"]

_MOST_FIELD: Final = 2_000
"""Most characters of an id, title, section or heading."""
_MOST_HEADINGS: Final = 100
_MOST_NOTES: Final = 200
_MOST_WHOLE: Final = 2**1023
"""A larger number is none of JSON, and Python refuses to write it."""


class Admitted(NamedTuple):
    """A checked answer: its chunks cut at top_k, how many were cut, how many were refused, and notes.

    Attributes:
        retrieved_at: when the source says it answered, aware; None where it does not say.
        failures: what parts of the source could not get.
        by_keywords: as in `SourceAnswer`.
    """

    chunks: tuple[Chunk, ...]
    cut: int
    rejected: int
    notes: tuple[str, ...]
    retrieved_at: datetime | None = None
    failures: tuple[SourceError, ...] = ()
    by_keywords: bool = False


def admit(answer: Any, *, source_id: str, top_k: int) -> Admitted:
    """Return the usable part of an answer.

    Chunks past top_k are cut and counted, without looking at them. What is not a chunk with text is refused and
    counted. A field whose value is not what it should be counts as not known, a score that its kind cannot be as
    absent; text is made valid, metadata bounded. All of it is noted.

    Raises:
        SourceProtocolError: not a `SourceAnswer`, or its chunks are not a sequence.
    """
    if not isinstance(answer, SourceAnswer):
        raise SourceProtocolError(
            f"search() returned {type(answer).__name__} instead of a SourceAnswer", source_id=source_id
        )
    given: Any = answer.chunks
    if (
        isinstance(given, str | bytes | Mapping | Set)
        or not hasattr(given, "__len__")
        or not hasattr(given, "__iter__")
    ):
        raise SourceProtocolError(f"its chunks are {type(given).__name__} instead of a list", source_id=source_id)
    notes = [_note(one) for one in answer.notes]
    kept: list[Chunk] = []
    rejected = 0
    for chunk in islice(given, top_k):
        if _is_chunk(chunk):
            kept.append(usable(chunk, notes))
        else:
            rejected += 1
    if rejected:
        notes.append(f"{rejected} chunk(s) without text were refused")
    retrieved_at = answer.retrieved_at
    if retrieved_at is not None and not _is_aware(retrieved_at):
        notes.append(f"retrieved_at {_shown(retrieved_at)} is not a moment with a time zone and counts as not known")
        retrieved_at = None
    cut = answer.cut + max(len(given) - top_k, 0)
    if len(notes) > _MOST_NOTES:
        notes[_MOST_NOTES:] = [f"and {len(notes) - _MOST_NOTES} further notes"]
    failures = _failures(answer, source_id)
    return Admitted(tuple(kept), cut, rejected, tuple(notes), retrieved_at, failures, answer.by_keywords is True)


def usable(chunk: Chunk, notes: list[str]) -> Chunk:
    """Return what can be used of a chunk: typed fields, scores their kinds can be, valid text, bounded metadata.

    Args:
        chunk: with text.
        notes: takes a sentence for whatever was changed.
    """
    return _with_sound_data(
        _with_sound_text(_with_usable_scores(_with_usable_fields(chunk, notes), notes), notes), notes
    )


def _note(given: Any) -> str:
    text = given if isinstance(given, str) else _shown(given)
    return sound_text(hide_in_error(text[:_MOST_FIELD]))


def _shown(value: Any) -> str:
    """Return the beginning of a value's text, for a note; a value may refuse to be written."""
    try:
        return sound_text(repr(value)[:60])
    except Exception:  # noqa: BLE001  whatever an object of another does when it is asked for its text
        return f"of type {type(value).__name__}"


def _failures(answer: SourceAnswer, source_id: str) -> tuple[SourceError, ...]:
    for error in answer.failures:
        if not isinstance(error, SourceError):
            name = type(error).__name__
            raise SourceProtocolError(f"its failures hold a {name} instead of a SourceError", source_id=source_id)
        error.source_id = error.source_id or source_id
        with_sound_words(error)
    return tuple(answer.failures)


def with_sound_words(error: SourceError) -> SourceError:
    """Return an error of a source whose message every output can hold."""
    error.args = tuple(_note(one) for one in error.args)
    return error


def _is_chunk(value: Any) -> bool:
    """A chunk with text in it; what a source hands over need not be what its annotations say."""
    content: Any = getattr(value, "content", None)
    return isinstance(value, Chunk) and isinstance(content, str) and not content.isspace() and content != ""


def _is_aware(value: Any) -> bool:
    try:
        return isinstance(value, datetime) and value.utcoffset() is not None and bool(value.astimezone(UTC))
    except OverflowError:  # the last evening of the year 9999, west of Greenwich
        return False


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < _MOST_WHOLE


def _is_day(value: Any) -> bool:
    return isinstance(value, date) and not isinstance(value, datetime)


def _one_of(vocabulary: type) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, vocabulary)


_CHECKS: Final[Mapping[str, Callable[[Any], bool]]] = {
    **dict.fromkeys(("chunk_id", "source_id", "document_id", "document_version", "dataset_id"), _is_text),
    **dict.fromkeys(("title", "section", "doc_type", "superseded_by"), _is_text),
    "heading_path": lambda value: isinstance(value, tuple) and all(map(_is_text, value)),
    "position": _is_count,
    "span": lambda value: isinstance(value, tuple) and len(value) == 2 and all(map(_is_count, value)),
    "scores": lambda value: isinstance(value, tuple | list),
    "source_type": _one_of(SourceType),
    "authority_tier": lambda value: _is_count(value) and value in TIERS,
    "trust_class": _one_of(TrustClass),
    "classification": _one_of(Classification),
    "fetched_at": _is_aware,
    "fetched_at_basis": _one_of(FetchedAtBasis),
    "ttl_seconds": _is_count,
    "effective_from": _is_day,
    "effective_to": _is_day,
    "metadata": _one_of(Mapping),
    "extra": _one_of(Mapping),
}
_Field = tuple[int, str, Any, Callable[[Any], bool]]
_FIELDS: Final[tuple[_Field, ...]] = tuple(
    (index, name, Chunk._field_defaults[name], _CHECKS[name])
    for index, name in enumerate(Chunk._fields)
    if name != "content"
)


_SETTLED: Final[Mapping[str, tuple[type, ...]]] = {
    **{name: (str,) for name, check in _CHECKS.items() if check is _is_text},
    "source_type": (SourceType,),
    "trust_class": (TrustClass,),
    "classification": (Classification,),
    "fetched_at_basis": (FetchedAtBasis,),
    "effective_from": (date,),
    "effective_to": (date,),
    "scores": (tuple, list),
    "metadata": (dict, type(NOTHING)),
    "extra": (dict, type(NOTHING)),
}
"""Types that answer a field's check alone."""


@lru_cache(maxsize=1024)
def _unsettled(types: tuple[type, ...]) -> tuple[_Field, ...]:
    """Return the fields that have to be looked at where a chunk's values have these types; a source's are alike."""
    return tuple(
        (index, name, default, check)
        for index, name, default, check in _FIELDS
        if types[index] not in _SETTLED.get(name, ()) and (default is not None or types[index] is not type(None))
    )


def _with_usable_fields(chunk: Chunk, notes: list[str]) -> Chunk:
    bad = {}
    for index, name, default, check in _unsettled(tuple(map(type, chunk))):
        value = chunk[index]
        if value is not default and not check(value):
            bad[name] = default
            notes.append(f"chunk {_name(chunk)}: {name} {_shown(value)} cannot be used and counts as not known")
    return chunk._replace(**bad) if bad else chunk


def _with_usable_scores(chunk: Chunk, notes: list[str]) -> Chunk:
    """Numbers of other libraries become floats; what is no score, or one its kind cannot be, is left out."""
    kept = []
    changed = False
    for score in chunk.scores:
        known = type(score) is Score and type(score.kind) is ScoreKind and isinstance(score.scorer, str | None)
        value = usable_score(score.kind, score.value) if known else None
        if value is None:
            notes.append(f"chunk {_name(chunk)}: score {_shown(score)} counts as absent")
        else:
            kept.append(score if value is score.value else score._replace(value=value))
        changed = changed or value is None or value is not score.value
    return chunk._replace(scores=tuple(kept)) if changed else chunk


_IDS: Final = frozenset(("chunk_id", "source_id", "document_id", "document_version", "dataset_id", "superseded_by"))
_TEXTS: Final[tuple[tuple[int, str], ...]] = tuple(
    (index, name) for index, name in enumerate(Chunk._fields) if _CHECKS.get(name) is _is_text
)


def _with_sound_text(chunk: Chunk, notes: list[str]) -> Chunk:
    """Make every text valid and every short one short: ids so that they still differ."""
    changed: dict[str, Any] = {}
    if not is_sound_text(chunk.content):
        changed["content"] = sound_text(chunk.content)
    for index, name in _TEXTS:
        text = chunk[index]
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
        f"chunk {_name(chunk)}: {', '.join(changed)} held characters that are not valid Unicode, or NUL, or too many: "
        "they were replaced or cut"
    )
    return chunk


def _with_sound_data(chunk: Chunk, notes: list[str]) -> Chunk:
    """Bound metadata and extra, and make what they hold valid."""
    metadata, of_metadata = sound_mapping(chunk.metadata) if chunk.metadata else (chunk.metadata, ())
    extra, of_extra = sound_mapping(chunk.extra) if chunk.extra else (chunk.extra, ())
    notes += [f"chunk {_name(chunk)}: metadata {one}" for one in of_metadata]
    notes += [f"chunk {_name(chunk)}: extra {one}" for one in of_extra]
    if metadata is chunk.metadata and extra is chunk.extra:
        return chunk
    return chunk._replace(metadata=metadata, extra=extra)


def _short_id(text: str) -> str:
    """Return an id as it is, or its beginning with a digest of the whole of one that is too long."""
    if len(text) <= _MOST_FIELD:
        return text
    return f"{text[:200]}…{sha256(text.encode()).hexdigest()[:16]}"


def _name(chunk: Chunk) -> str:
    name = chunk.chunk_id
    return sound_text(name[:200]) if isinstance(name, str) and name else "without id"
