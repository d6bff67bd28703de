"""Chunk dicts, the form of the seed's API, read into chunks. Nothing of a dict is lost: unknown keys go to `extra`."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any, Final

from context_engine.errors import InvalidRequest, nearest
from context_engine.models.chunk import NOTHING, Chunk, Score
from context_engine.models.enums import TIERS, Classification, FetchedAtBasis, ScoreKind, SourceType, TrustClass

__all__ = ["chunk_from_dict", "to_date", "to_moment"]

_KEYS: Final = """
    content chunk_id source_id source_type authority_tier trust_class classification document_id
    document_version dataset_id title section heading_path doc_type position span fetched_at fetched_at_basis
    ttl_seconds effective_from effective_to superseded_by metadata scores
"""
_READ: Final = frozenset(_KEYS.split())
_PARSED: Final = ("fetched_at", "ttl_seconds", "effective_from", "effective_to", "position", "span")
_COMPUTED: Final = ("rank", "_rag_score", "_relevance_score", "_authority_boost", "_provenance")


def chunk_from_dict(given: Mapping[str, Any], warnings: list[str] | None = None) -> Chunk:
    """Read a chunk dict.

    `relevance_score` is relevance in [0, 1]; `score` has the kind `score_kind`, unknown if that is not given. What
    provenance knows (trust_class, fetched_at, document_id ...) is looked for at the top level, then in `_provenance`,
    then in `metadata`. A relevance that is NaN, infinite or outside [0, 1] counts as absent, with a warning.

    Args:
        given: the dict; never changed.
        warnings: takes a sentence for each value that was not usable.

    Raises:
        InvalidRequest: not a mapping, no text in `content`, or a tier or type that does not exist.
    """
    if not isinstance(given, Mapping):
        raise InvalidRequest(f"a chunk must be a dict with 'content', got {type(given).__name__}")
    content = given.get("content")
    if not isinstance(content, str) or not content.strip():
        raise InvalidRequest(f"chunk {given.get('chunk_id', '?')!r} has no text in 'content'")
    notes = [] if warnings is None else warnings
    look = _Lookup(given)
    chunk = Chunk(
        content=content,
        chunk_id=look.text("chunk_id") or "",
        source_id=look.text("source_id"),
        scores=_scores(given, notes),
        document_id=look.text("document_id"),
        document_version=look.text("document_version") or look.text("version"),
        dataset_id=look.text("dataset_id"),
        title=look.text("title"),
        section=look.text("section"),
        heading_path=tuple(str(one) for one in given.get("heading_path") or ()),
        doc_type=look.text("doc_type"),
        position=look.whole("position"),
        span=_span(given.get("span")),
        source_type=_member(SourceType, look.value("source_type"), "source_type"),
        authority_tier=_tier(look.value("authority_tier")),
        trust_class=_member(TrustClass, look.value("trust_class"), "trust_class"),
        classification=_member(Classification, look.value("classification"), "classification"),
        fetched_at=to_moment(look.value("fetched_at")),
        fetched_at_basis=_member(FetchedAtBasis, look.value("fetched_at_basis"), "fetched_at_basis"),
        ttl_seconds=look.whole("ttl_seconds"),
        effective_from=to_date(look.value("effective_from")),
        effective_to=to_date(look.value("effective_to")),
        superseded_by=look.text("superseded_by"),
        metadata=_metadata(given),
    )
    return chunk._replace(extra=_extra(given, chunk, notes))


def _extra(given: Mapping[str, Any], chunk: Chunk, warnings: list[str]) -> Mapping[str, Any]:
    """What the chunk has no place for: unknown keys, the scores as given, and values that could not be read."""
    extra = {key: value for key, value in given.items() if key not in _READ and key not in _COMPUTED}
    for key in _PARSED:
        if given.get(key) is not None and getattr(chunk, key) is None:
            extra[key] = given[key]
            warnings.append(f"chunk {chunk.chunk_id or 'without id'}: {key} {given[key]!r} cannot be read")
    return extra or NOTHING


class _Lookup:
    """Finds a key at the top level, then in `_provenance` (and its extra), then in `metadata`."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        tag = given.get("_provenance")
        tag = tag if isinstance(tag, Mapping) else {}
        extra = tag.get("extra")
        places = (given, tag, extra, given.get("metadata"))
        self._places = [place for place in places if isinstance(place, Mapping)]

    def value(self, key: str) -> Any:
        for place in self._places:
            if place.get(key) is not None:
                return place[key]
        return None

    def text(self, key: str) -> str | None:
        value = self.value(key)
        return None if value is None else str(value)

    def whole(self, key: str) -> int | None:
        value = self.value(key)
        if value is None or isinstance(value, bool):
            return None
        try:
            return int(value)
        except (TypeError, ValueError, OverflowError):
            return None


def _scores(given: Mapping[str, Any], warnings: list[str]) -> tuple[Score, ...]:
    found: list[Score] = []
    for one in given.get("scores") or ():
        kind = _member(ScoreKind, one.get("kind"), "score kind") or ScoreKind.UNKNOWN
        _add(found, kind, one.get("value"), one.get("scorer"), given, warnings)
    if given.get("relevance_score") is not None:
        _add(found, ScoreKind.RELEVANCE, given["relevance_score"], None, given, warnings)
    if given.get("score") is not None:
        kind = _member(ScoreKind, given.get("score_kind"), "score_kind") or ScoreKind.UNKNOWN
        _add(found, kind, given["score"], None, given, warnings)
    return tuple(found)


def _add(
    found: list[Score], kind: ScoreKind, value: Any, scorer: Any, given: Mapping[str, Any], warnings: list[str]
) -> None:
    number = None if isinstance(value, bool) else _number(value)
    bad = number is None or not isfinite(number) or (kind is ScoreKind.RELEVANCE and not 0.0 <= number <= 1.0)
    if bad or number is None:
        name = given.get("chunk_id") or "without id"
        warnings.append(f"chunk {name}: {kind} score {value!r} is not a usable number and counts as absent")
    elif not any(score.kind is kind for score in found):
        found.append(Score(kind, number, None if scorer is None else str(scorer)))


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError, OverflowError):
        return None


def _metadata(given: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = given.get("metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else NOTHING


def _span(value: Any) -> tuple[int, int] | None:
    try:
        start, end = value
        return (int(start), int(end))
    except (TypeError, ValueError):
        return None


def _tier(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or value not in TIERS:
        raise InvalidRequest(f"authority_tier must be a whole number from 1 to 5, got {value!r}")
    return int(value)


def _member(vocabulary: Any, value: Any, name: str) -> Any:
    if value is None or isinstance(value, vocabulary):
        return value
    try:
        return vocabulary(value)
    except ValueError:
        names = [member.value for member in vocabulary]
        raise InvalidRequest(f"{name} {value!r} does not exist.{nearest(str(value), names)}") from None


def to_moment(value: Any) -> datetime | None:
    """Return an aware UTC moment from a datetime, an ISO 8601 text or unix seconds; None if it is none of them.

    A moment without a zone is taken as UTC; a date as its first moment.
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, bool):
        return None
    if isinstance(value, int | float):
        try:
            return datetime.fromtimestamp(value, UTC)
        except (OverflowError, ValueError, OSError):
            return None
    if isinstance(value, date) and not isinstance(value, datetime):
        value = datetime(value.year, value.month, value.day)
    if not isinstance(value, datetime):
        return None
    return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)


def to_date(value: Any) -> date | None:
    """Return a day from a date, an ISO 8601 text or unix seconds; a moment gives its UTC day; None if it is none."""
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    moment = to_moment(value)
    return None if moment is None else moment.date()
