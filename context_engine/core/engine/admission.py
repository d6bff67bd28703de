"""What a source gave, checked before anything trusts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import islice
from typing import Any, Final, NamedTuple

from context_engine.core.engine.sanitize_chunk import (
    beginning,
    id_of,
    is_scorer,
    name_of,
    sound_chunk,
    sound_notice,
    with_sound_words,
)
from context_engine.core.models import (
    NOTHING,
    TIERS,
    Chunk,
    Classification,
    FetchedAtBasis,
    Notice,
    NoticeCode,
    Score,
    ScoreKind,
    SourceAnswer,
    SourceType,
    TrustClass,
    about,
    usable_score,
)
from context_engine.errors import SourceError, SourceProtocolError

__all__ = ["Admitted", "admit", "usable"]

_MOST_NOTICES: Final = 200
_MOST_WHOLE: Final = 2**1023
"""A larger number is none of JSON, and Python refuses to write it."""


class Admitted(NamedTuple):
    """A checked answer: its chunks cut at top_k, how many were cut, how many were refused, and notices.

    Attributes:
        retrieved_at: when the source says it answered, aware; None where it does not say.
        failures: what parts of the source could not get.
        by_keywords: as in `SourceAnswer`.
    """

    chunks: tuple[Chunk, ...]
    cut: int
    rejected: int
    notices: tuple[Notice, ...]
    retrieved_at: datetime | None = None
    failures: tuple[SourceError, ...] = ()
    by_keywords: bool = False


def admit(answer: Any, *, source_id: str, top_k: int) -> Admitted:
    """Return the usable part of an answer.

    Chunks past top_k are cut and counted, without looking at them. What is not a chunk with text is refused and
    counted. A field whose value is not what it should be counts as not known, a score that its kind cannot be as
    absent; text is made valid, metadata bounded. A notice says each of it.

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
    notices = [sound_notice(one, source_id) for one in answer.notes]
    kept: list[Chunk] = []
    rejected = 0
    for chunk in islice(given, top_k):
        if _is_chunk(chunk):
            kept.append(usable(chunk, notices))
        else:
            rejected += 1
    if rejected:
        said = f"{rejected} chunk(s) without text were refused"
        notices.append(Notice(NoticeCode.CHUNKS_REFUSED, source_id, said, {"count": rejected}))
    retrieved_at = answer.retrieved_at
    if retrieved_at is not None and not _is_aware(retrieved_at):
        value = beginning(retrieved_at)
        said = f"retrieved_at {value} is not a moment with a time zone and counts as not known"
        detail = {"field": "retrieved_at", "value": value}
        notices.append(Notice(NoticeCode.FIELD_UNUSABLE, source_id, said, detail))
        retrieved_at = None
    cut = answer.cut + max(len(given) - top_k, 0)
    further = len(notices) - _MOST_NOTICES
    if further > 0:
        said = f"and {further} further notes"
        notices[_MOST_NOTICES:] = [Notice(NoticeCode.NOTICES_LEFT_OUT, source_id, said, {"count": further})]
    failures = _failures(answer, source_id)
    known = about(source_id, notices)
    return Admitted(tuple(kept), cut, rejected, known, retrieved_at, failures, answer.by_keywords is True)


def usable(chunk: Chunk, notices: list[Notice]) -> Chunk:
    """Return what can be used of a chunk: typed fields, scores their kinds can be, valid text, bounded metadata.

    Args:
        chunk: with text.
        notices: takes one for whatever was changed.
    """
    return sound_chunk(_with_usable_scores(_with_usable_fields(chunk, notices), notices), notices)


def _failures(answer: SourceAnswer, source_id: str) -> tuple[SourceError, ...]:
    for error in answer.failures:
        if not isinstance(error, SourceError):
            name = type(error).__name__
            raise SourceProtocolError(f"its failures hold a {name} instead of a SourceError", source_id=source_id)
        error.source_id = error.source_id or source_id
        with_sound_words(error)
    return tuple(answer.failures)


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


def _with_usable_fields(chunk: Chunk, notices: list[Notice]) -> Chunk:
    bad = {}
    for index, name, default, check in _unsettled(tuple(map(type, chunk))):
        value = chunk[index]
        if value is not default and not check(value):
            bad[name] = default
            said = f"chunk {name_of(chunk)}: {name} {beginning(value)} cannot be used and counts as not known"
            detail = {"chunk_id": id_of(chunk), "field": name, "value": beginning(value)}
            notices.append(Notice(NoticeCode.FIELD_UNUSABLE, "", said, detail))
    return chunk._replace(**bad) if bad else chunk


def _with_usable_scores(chunk: Chunk, notices: list[Notice]) -> Chunk:
    """Numbers of other libraries become floats; what is no score, or one its kind cannot be, is left out."""
    kept = []
    changed = False
    for score in chunk.scores:
        known = type(score) is Score and type(score.kind) is ScoreKind and is_scorer(score.scorer)
        value = usable_score(score.kind, score.value) if known else None
        if value is None:
            said = f"chunk {name_of(chunk)}: score {beginning(score)} counts as absent"
            detail = {"chunk_id": id_of(chunk), "value": beginning(score)}
            notices.append(Notice(NoticeCode.SCORE_UNUSABLE, "", said, detail))
        else:
            kept.append(score if value is score.value else score._replace(value=value))
        changed = changed or value is None or value is not score.value
    return chunk._replace(scores=tuple(kept)) if changed else chunk
