"""Admission: validates the answer of a source before anything trusts it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Set
from dataclasses import replace
from datetime import UTC, date, datetime
from functools import lru_cache
from itertools import islice
from math import inf, isfinite
from typing import Any, Final, NamedTuple

from context_engine.core.engine.sanitize_chunk import (
    chunk_id_of,
    chunk_label,
    excerpt,
    is_valid_scorer,
    sanitized_chunk,
    sanitized_error,
    sanitized_notice,
)
from context_engine.core.models import (
    NOTHING,
    TIERS,
    Chunk,
    Classification,
    FetchedAtBasis,
    Notice,
    NoticeCode,
    QueryEmbedding,
    ScopeCalibration,
    Score,
    ScoreKind,
    SourceAnswer,
    SourceType,
    TermStatistics,
    TrustClass,
    UnknownWord,
    WithheldChunk,
    about,
    is_valid_text,
    usable_score,
)
from context_engine.core.text import bare_version
from context_engine.errors import SourceError, SourceProtocolError

_MOST_NOTICES: Final = 200
_MOST_TERMS: Final = 4_096
"""Most terms that a source counts: more than any question and its expansions have."""
_MOST_MS: Final = 3_600_000.0
_MOST_LISTED: Final = 1000
_MOST_LETTERS: Final = 300
_MOST_WHOLE: Final = 2**1023
"""A larger integer may not fit a double, as which many JSON readers read numbers."""


class ValidatedAnswer(NamedTuple):
    """The usable part of an answer.

    Attributes:
        cut: number of chunks past top_k that were left out.
        rejected: number of items that were not chunks or had no text.
        retrieved_at: when the source says it answered, timezone-aware; None if it does not say.
        failures: errors of single parts of the source.
        by_keywords, statistics, calibration, unknown_words, filter_fields, embedding: as in `SourceAnswer`.
        withheld: chunks that the caller may not read; the other fields do not contain them.
    """

    chunks: tuple[Chunk, ...]
    cut: int
    rejected: int
    notices: tuple[Notice, ...]
    retrieved_at: datetime | None = None
    failures: tuple[SourceError, ...] = ()
    by_keywords: bool = False
    statistics: TermStatistics | None = None
    unknown_words: tuple[UnknownWord, ...] | None = None
    filter_fields: tuple[str, ...] | None = None
    calibration: ScopeCalibration | None = None
    withheld: tuple[WithheldChunk, ...] = ()
    embedding: QueryEmbedding | None = None


def validate_answer(answer: Any, *, source_id: str, top_k: int, valid_chunks: bool = False) -> ValidatedAnswer:
    """Return the usable part of an answer.

    Chunks past top_k are cut and counted without being checked. Items that are not chunks with text are refused and
    counted. An invalid field counts as unknown, and a score outside the range of its kind as absent; text is made
    valid and metadata bounded. Each change is reported in a notice.

    Args:
        valid_chunks: its chunks have passed `valid_chunk` already, so only their scores are checked.

    Raises:
        SourceProtocolError: not a `SourceAnswer`, or its chunks are not a sequence.
    """
    if not isinstance(answer, SourceAnswer):
        raise SourceProtocolError(
            f"search() returned {type(answer).__name__} instead of a SourceAnswer", source_id=source_id
        )
    chunks: Any = answer.chunks
    if not is_listed(chunks):
        raise SourceProtocolError(f"its chunks are {type(chunks).__name__} instead of a list", source_id=source_id)
    notices = [sanitized_notice(note, source_id) for note in answer.notes]
    kept: list[Chunk] = []
    rejected = 0
    for chunk in islice(chunks, top_k):
        if valid_chunks:
            kept.append(_with_valid_scores(chunk, notices))
        elif _is_chunk(chunk):
            kept.append(valid_chunk(chunk, notices))
        else:
            rejected += 1
    if rejected:
        message = f"{rejected} chunk(s) without text were refused"
        notices.append(Notice(NoticeCode.CHUNKS_REFUSED, source_id, message, {"count": rejected}))
    retrieved_at = answer.retrieved_at
    if retrieved_at is not None and not _is_aware(retrieved_at):
        value = excerpt(retrieved_at)
        message = f"retrieved_at {value} is not a time with a time zone and counts as unknown"
        detail = {"field": "retrieved_at", "value": value}
        notices.append(Notice(NoticeCode.FIELD_UNUSABLE, source_id, message, detail))
        retrieved_at = None
    statistics = _statistics(answer, source_id, notices)
    unknown_words = _usable(answer, "unknown_words", _is_unknown_word, notices)
    filter_fields = _usable(answer, "filter_fields", _is_short_text, notices)
    calibration = _calibration(answer, source_id, notices)
    cut = answer.cut + max(len(chunks) - top_k, 0)
    further = len(notices) - _MOST_NOTICES
    if further > 0:
        message = f"and {further} further notes"
        notices[_MOST_NOTICES:] = [Notice(NoticeCode.NOTICES_LEFT_OUT, source_id, message, {"count": further})]
    failures = _failures(answer, source_id)
    known = about(source_id, notices)
    return ValidatedAnswer(
        tuple(kept),
        cut=cut,
        rejected=rejected,
        notices=known,
        retrieved_at=retrieved_at,
        failures=failures,
        by_keywords=answer.by_keywords is True,
        statistics=statistics,
        calibration=calibration,
        unknown_words=unknown_words,
        filter_fields=filter_fields,
        embedding=_embedding(answer.embedding),
    )


def is_listed(chunks: Any) -> bool:
    """Return whether a value from a source is a list of some kind; its items are not checked."""
    another = isinstance(chunks, str | bytes | Mapping | Set)
    return not another and hasattr(chunks, "__len__") and hasattr(chunks, "__iter__")


def valid_chunk(chunk: Chunk, notices: list[Notice]) -> Chunk:
    """Return a chunk with fields of the right types, scores in range, valid text and bounded metadata.

    Its document_version is normalised as well.
    """
    chunk = _with_version_as_text(chunk)
    valid = sanitized_chunk(_with_valid_scores(_with_valid_fields(chunk, notices), notices), notices)
    version = valid.document_version
    bare = None if version is None else bare_version(version) or None
    return valid if bare == version else valid._replace(document_version=bare)


def _statistics(answer: SourceAnswer, source_id: str, notices: list[Notice]) -> TermStatistics | None:
    """Return the term statistics of an answer; unusable ones count as unknown, with a notice."""
    statistics: Any = answer.statistics
    if statistics is None:
        return None
    if isinstance(statistics, TermStatistics) and _are_usable(statistics):
        return replace(statistics, document_frequency=dict(statistics.document_frequency))
    notices.append(_unusable("statistics", statistics, source_id))
    return None


def _calibration(answer: SourceAnswer, source_id: str, notices: list[Notice]) -> ScopeCalibration | None:
    """Return the calibration of an answer; an unusable one counts as unknown, with a notice."""
    calibration: Any = answer.calibration
    if calibration is None or (
        isinstance(calibration, ScopeCalibration)
        and _is_share(calibration.threshold)
        and _is_share(calibration.strong)
        and _is_evidence(calibration.near_miss)
    ):
        return calibration
    notices.append(_unusable("calibration", calibration, source_id))
    return None


def _embedding(embedding: Any) -> QueryEmbedding | None:
    """Return the details of the query's embedding; None if they are missing or invalid."""
    if not isinstance(embedding, QueryEmbedding) or not embedding.model or not is_valid_scorer(embedding.model):
        return None
    return embedding if isinstance(embedding.elapsed_ms, float) and 0.0 <= embedding.elapsed_ms <= _MOST_MS else None


def _unusable(field: str, value: Any, source_id: str) -> Notice:
    shown = excerpt(value)
    message = f"{field} {shown} is unusable: it counts as unknown"
    return Notice(NoticeCode.FIELD_UNUSABLE, source_id, message, {"field": field, "value": shown})


def _is_share(value: Any) -> bool:
    return isinstance(value, float) and 0.0 <= value <= 1.0


def _are_usable(value: TermStatistics) -> bool:
    return (
        bool(value.collection)
        and is_valid_scorer(value.collection)
        and _is_count(value.chunks)
        and isinstance(value.document_frequency, Mapping)
        and len(value.document_frequency) <= _MOST_TERMS
        and all(
            _is_text(term) and _is_count(count) and count <= value.chunks
            for term, count in value.document_frequency.items()
        )
    )


def _failures(answer: SourceAnswer, source_id: str) -> tuple[SourceError, ...]:
    for error in answer.failures:
        if not isinstance(error, SourceError):
            name = type(error).__name__
            raise SourceProtocolError(f"its failures hold a {name} instead of a SourceError", source_id=source_id)
        error.source_id = error.source_id or source_id
        sanitized_error(error)
    return tuple(answer.failures)


def _usable(
    answer: SourceAnswer, field: str, is_usable: Callable[[Any], bool], notices: list[Notice]
) -> tuple[Any, ...] | None:
    """Return a tuple field of the answer; None if it is missing or has an invalid item."""
    value: Any = getattr(answer, field)
    if value is None or (isinstance(value, tuple | list) and all(map(is_usable, value))):
        return None if value is None else tuple(value[:_MOST_LISTED])
    detail = {"field": field, "value": excerpt(value)}
    message = f"{field} {detail['value']} is invalid and counts as unknown"
    notices.append(Notice(NoticeCode.FIELD_UNUSABLE, "", message, detail))
    return None


def _is_unknown_word(value: Any) -> bool:
    return isinstance(value, UnknownWord) and all(map(_is_short_text, value))


def _is_short_text(value: Any) -> bool:
    return isinstance(value, str) and len(value) <= _MOST_LETTERS and is_valid_text(value)


def _is_chunk(value: Any) -> bool:
    """Whether a value is a chunk with text; a source may ignore its type annotations."""
    content: Any = getattr(value, "content", None)
    return isinstance(value, Chunk) and isinstance(content, str) and not content.isspace() and content != ""


def _is_aware(value: Any) -> bool:
    try:
        return isinstance(value, datetime) and value.utcoffset() is not None and bool(value.astimezone(UTC))
    except OverflowError:  # the last evening of the year 9999 west of Greenwich is past datetime.max in UTC
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
_VALID_TYPES: Final[Mapping[str, tuple[type, ...]]] = {
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
"""Types whose every value passes the field's check."""


@lru_cache(maxsize=1024)
def _fields_to_check(types: tuple[type, ...]) -> tuple[_Field, ...]:
    """Return the fields to check for values of these types; cached because the chunks of a source are alike."""
    return tuple(
        (index, name, default, check)
        for index, name, default, check in _FIELDS
        if types[index] not in _VALID_TYPES.get(name, ()) and (default is not None or types[index] is not type(None))
    )


def _with_version_as_text(chunk: Chunk) -> Chunk:
    """Turn a numeric version into text: many sources store versions as numbers."""
    version: Any = chunk.document_version
    if type(version) not in (int, float) or not isfinite(version):
        return chunk
    return chunk._replace(document_version=str(version))


def _with_valid_fields(chunk: Chunk, notices: list[Notice]) -> Chunk:
    bad = {}
    for index, name, default, check in _fields_to_check(tuple(map(type, chunk))):
        value = chunk[index]
        if value is not default and not check(value):
            bad[name] = default
            message = f"chunk {chunk_label(chunk)}: {name} {excerpt(value)} is unusable and counts as unknown"
            detail = {"chunk_id": chunk_id_of(chunk), "field": name, "value": excerpt(value)}
            notices.append(Notice(NoticeCode.FIELD_UNUSABLE, "", message, detail))
    return chunk._replace(**bad) if bad else chunk


def _with_valid_scores(chunk: Chunk, notices: list[Notice]) -> Chunk:
    """Turn numbers of other libraries into floats; drop invalid scores and those outside the range of their kind."""
    kept = []
    changed = False
    for score in chunk.scores:
        known = type(score) is Score and type(score.kind) is ScoreKind and is_valid_scorer(score.scorer)
        value = usable_score(score.kind, score.value) if known else None
        if value is None:
            message = f"chunk {chunk_label(chunk)}: score {excerpt(score)} counts as absent"
            detail = {"chunk_id": chunk_id_of(chunk), "value": excerpt(score)}
            notices.append(Notice(NoticeCode.SCORE_UNUSABLE, "", message, detail))
        else:
            kept.append(score if value is score.value else score._replace(value=value))
        changed = changed or value is None or value is not score.value
    return chunk._replace(scores=tuple(kept)) if changed else chunk


def _is_evidence(value: Any) -> bool:
    return value is None or (isinstance(value, float) and 0.0 <= value < inf)
