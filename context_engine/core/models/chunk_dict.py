"""Chunk dicts, the form of `context_engine.rag`, read into chunks; unknown keys go to `extra`."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from difflib import get_close_matches
from enum import StrEnum
from typing import Any, Final, TypeVar

from context_engine.core.models.chunk import (
    NOTHING,
    TIERS,
    Chunk,
    Classification,
    FetchedAtBasis,
    Score,
    ScoreKind,
    SourceType,
    TrustClass,
    usable_score,
)
from context_engine.core.models.notice import Notice, NoticeCode
from context_engine.core.models.sanitize import sanitized_id, sanitized_mapping
from context_engine.errors import InvalidRequest, closest, nearest

_IDS: Final = ("chunk_id", "source_id", "document_id")
_READ: Final = frozenset(Chunk._fields) - {"extra"}

_PARSED: Final = (
    *("fetched_at", "ttl_seconds", "effective_from", "effective_to", "position", "span"),
    *("heading_path", "metadata", "scores"),
)

_T = TypeVar("_T")
_Word = TypeVar("_Word", bound=StrEnum)
_COMPUTED: Final = ("rank", "confidence", "_rag_score", "_relevance_score", "_authority_boost", "_provenance")
CHUNK_KEYS: Final = _READ | {"score", "score_kind", "relevance_score", "rerank_score", "domain", "version", *_COMPUTED}
"""The keys of a chunk dict that are read; any other is kept in `extra`."""


def chunk_from_dict(fields: Mapping[str, Any], notices: list[Notice] | None = None) -> Chunk:
    """Read a chunk dict.

    `relevance_score` is relevance in [0, 1]; `score` has the kind `score_kind`, by default unknown. Fields of the
    provenance (trust_class, fetched_at, document_id ...) are read at the top level, then in `_provenance`, then in
    `metadata`. A score out of the range of its kind (relevance outside [0, 1], NaN ...) counts as absent, with a
    notice; so does an unknown tier or type in `metadata`. All values are sanitised first: see `sanitized_mapping`.

    Args:
        fields: the dict; never changed.
        notices: a notice is appended for each unusable value.

    Raises:
        InvalidRequest: not a mapping, no text in `content`, or (outside `metadata`) an unknown tier or type.
    """
    if not isinstance(fields, Mapping):
        raise InvalidRequest(f"a chunk must be a dict with 'content', got {type(fields).__name__}")
    content, notices = fields.get("content"), [] if notices is None else notices
    fields, changes = sanitized_mapping(
        {key: _sanitized(key, value) for key, value in fields.items() if key != "content"}
    )
    if not isinstance(content, str) or not content.strip():
        raise InvalidRequest(_no_text(fields, content))
    for change in changes:
        detail = {"chunk_id": _id(fields), "change": change}
        notices.append(Notice(NoticeCode.METADATA_REPAIRED, "", f"chunk {_name(fields)} {change}", detail))
    look = _Lookup(fields, notices)
    chunk = Chunk(
        content=content,
        chunk_id=look.text("chunk_id") or "",
        source_id=look.text("source_id"),
        scores=_scores(fields, notices),
        document_id=look.text("document_id"),
        document_version=look.version(),
        dataset_id=look.text("dataset_id"),
        title=look.text("title"),
        section=look.text("section"),
        heading_path=_headings(fields.get("heading_path")),
        doc_type=look.text("doc_type"),
        position=look.whole("position"),
        span=_span(fields.get("span")),
        source_type=look.member(SourceType, "source_type"),
        authority_tier=look.tier("authority_tier"),
        trust_class=look.member(TrustClass, "trust_class"),
        classification=look.member(Classification, "classification"),
        fetched_at=to_moment(look.value("fetched_at")),
        fetched_at_basis=look.member(FetchedAtBasis, "fetched_at_basis"),
        ttl_seconds=look.whole("ttl_seconds"),
        effective_from=to_date(look.value("effective_from")),
        effective_to=to_date(look.value("effective_to")),
        superseded_by=look.text("superseded_by"),
        metadata=_metadata(fields),
    )
    return chunk._replace(extra=_extra(fields, chunk, notices))


def _no_text(fields: Mapping[str, Any], content: Any) -> str:
    """Return the problem of a dict without text, naming the key that may hold the text."""
    named = f"chunk {fields.get('chunk_id', '?')!r} has no text in 'content'"
    if content is not None:
        return named if isinstance(content, str) else f"{named} but {type(content).__name__}"
    keys = sorted(key for key, value in fields.items() if isinstance(value, str) and key not in CHUNK_KEYS)
    close = closest("content", keys) or next((key for key in ("text", "page_content", "body") if key in keys), None)
    return f"{named}. Its text seems to be in {close!r}: name that key 'content'" if close else named


def _sanitized(key: str, value: Any) -> Any:
    return sanitized_id(value) if key in _IDS and isinstance(value, str) else value


def _id(fields: Mapping[str, Any]) -> str:
    return str(fields.get("chunk_id") or "")


def _name(fields: Mapping[str, Any]) -> str:
    return _id(fields) or "without id"


def _extra(fields: Mapping[str, Any], chunk: Chunk, notices: list[Notice]) -> Mapping[str, Any]:
    """Return what no field of the chunk holds: unknown keys, the scores as given, and unreadable values."""
    extra = {key: value for key, value in fields.items() if key not in _READ and key not in _COMPUTED}
    for key in _PARSED:
        value = fields.get(key)
        if value is not None and not _was_read(key, value, chunk):
            extra[key] = value
            message = f"chunk {chunk.chunk_id or 'without id'}: {key} {value!r} cannot be read"
            detail = {"chunk_id": chunk.chunk_id, "field": key, "value": repr(value)}
            notices.append(Notice(NoticeCode.FIELD_UNUSABLE, "", message, detail))
    return extra or NOTHING


def _was_read(key: str, value: Any, chunk: Chunk) -> bool:
    if key == "metadata":
        return isinstance(value, Mapping)
    if key in ("heading_path", "scores"):
        return isinstance(value, list | tuple)
    return getattr(chunk, key) is not None


class _Lookup:
    """Finds a key at the top level, then in `_provenance` (and its extra), then in `metadata`."""

    def __init__(self, fields: Mapping[str, Any], notices: list[Notice]) -> None:
        self._given, self._notices = fields, notices
        tag = fields.get("_provenance")
        tag = tag if isinstance(tag, Mapping) else {}
        extra = tag.get("extra")
        metadata = fields.get("metadata")
        self._metadata = metadata if isinstance(metadata, Mapping) else {}
        self._places = [place for place in (fields, tag, extra, self._metadata) if isinstance(place, Mapping)]

    def value(self, key: str) -> Any:
        for place in self._places:
            if place.get(key) is not None:
                return place[key]
        return None

    def text(self, key: str) -> str | None:
        value = self.value(key)
        return None if value is None else str(value)

    def version(self) -> str | None:
        """Return the document's version; empty values are ignored."""
        values = (place.get(key) for key in ("document_version", "version") for place in self._places)
        return next((str(value) for value in values if value is not None and str(value).strip()), None)

    def whole(self, key: str) -> int | None:
        value = self.value(key)
        if value is None or isinstance(value, bool):
            return None
        try:
            number = int(value)
        except (TypeError, ValueError, OverflowError):
            return None
        return number if number >= 0 else None

    def member(self, vocabulary: type[_Word], key: str) -> _Word | None:
        return self._claimed(key, lambda value: _member(vocabulary, value, key))

    def tier(self, key: str) -> int | None:
        return self._claimed(key, _tier)

    def _claimed(self, key: str, read: Callable[[Any], _T]) -> _T | None:
        """Read a value; ignore an unknown one in metadata, where another system may use the same key."""
        value = self.value(key)
        try:
            return read(value)
        except InvalidRequest as error:
            if value is not self._metadata.get(key):
                raise
            detail = {"chunk_id": _id(self._given), "field": key, "problem": str(error)}
            message = f"{key} in metadata is ignored: {error}"
            self._notices.append(Notice(NoticeCode.FIELD_UNUSABLE, "", message, detail))
            return None


def _scores(fields: Mapping[str, Any], notices: list[Notice]) -> tuple[Score, ...]:
    scores: list[Score] = []
    listed = fields.get("scores")
    for entry in listed if isinstance(listed, list | tuple) else ():
        if not isinstance(entry, Mapping):
            raise InvalidRequest(f"'scores' takes dicts of kind, value and scorer, got {entry!r}")
        kind = _member(ScoreKind, entry.get("kind"), "score kind") or ScoreKind.UNKNOWN
        _add(scores, kind, entry.get("value"), entry.get("scorer"), fields, notices)
    if fields.get("relevance_score") is not None:
        _add(scores, ScoreKind.RELEVANCE, fields["relevance_score"], None, fields, notices)
    if fields.get("score") is not None:
        kind = _member(ScoreKind, fields.get("score_kind"), "score_kind") or ScoreKind.UNKNOWN
        _add(scores, kind, fields["score"], None, fields, notices)
    return tuple(scores)


def _add(
    scores: list[Score], kind: ScoreKind, value: Any, scorer: Any, fields: Mapping[str, Any], notices: list[Notice]
) -> None:
    number = usable_score(kind, value)
    if number is None:
        message = f"chunk {_name(fields)}: {kind} score {value!r} is not a usable number and counts as absent"
        detail = {"chunk_id": _id(fields), "kind": str(kind), "value": repr(value)}
        notices.append(Notice(NoticeCode.SCORE_UNUSABLE, "", message, detail))
    elif not any(score.kind is kind for score in scores):
        scores.append(Score(kind, number, None if scorer is None else str(scorer)))


def _metadata(fields: Mapping[str, Any]) -> Mapping[str, Any]:
    metadata = fields.get("metadata")
    return dict(metadata) if isinstance(metadata, Mapping) else NOTHING


def _headings(value: Any) -> tuple[str, ...]:
    return tuple(map(str, value)) if isinstance(value, list | tuple) else ()


def _span(value: Any) -> tuple[int, int] | None:
    try:
        start, end = value
        return (int(start), int(end))
    except (TypeError, ValueError, OverflowError):
        return None


def _tier(value: Any) -> int | None:
    if value is None:
        return None
    if isinstance(value, bool) or value not in TIERS:
        raise InvalidRequest(f"authority_tier must be a whole number from 1 to 5, got {value!r}")
    return int(value)


def _member(vocabulary: type[_Word], value: Any, name: str) -> _Word | None:
    if value is None or isinstance(value, vocabulary):
        return value
    try:
        return vocabulary(value)
    except ValueError:
        names = [member.value for member in vocabulary]
        raise InvalidRequest(f"{name} {value!r} does not exist.{nearest(str(value), names)}") from None


def to_moment(value: Any) -> datetime | None:
    """Return an aware UTC moment from a datetime, date, ISO 8601 text or unix seconds; None for any other value.

    A moment without a time zone is taken as UTC, a date as its first moment.
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
    try:
        return value.replace(tzinfo=UTC) if value.tzinfo is None else value.astimezone(UTC)
    except OverflowError:  # the last evening of the year 9999, west of Greenwich
        return None


def to_date(value: Any, zone: tzinfo = UTC) -> date | None:
    """Return a day from a date, datetime, ISO 8601 text or unix seconds; None for any other value.

    A value without a time zone gives the day it names, any other its day in `zone`.

    >>> from datetime import timedelta, timezone
    >>> to_date(1735660800, timezone(timedelta(hours=8)))
    datetime.date(2025, 1, 1)
    """
    if isinstance(value, str):
        try:
            value = datetime.fromisoformat(value.strip())
        except ValueError:
            return None
    if isinstance(value, datetime) and value.tzinfo is None:
        return value.date()
    if isinstance(value, date) and not isinstance(value, datetime):
        return value
    moment = to_moment(value)
    try:
        return None if moment is None else moment.astimezone(zone).date()
    except OverflowError:
        return None


# A key counts as misspelt only if it is very near a known one: most unknown keys are the author's own, not typos
_LEAST_LIKENESS: Final = 0.8
_MOST_LENGTH_DIFFERENCE: Final = 2
_NAMES: Final = sorted(key for key in CHUNK_KEYS if not key.startswith("_"))
_RELEVANCE: Final = ("score_kind", "scores", "relevance_score")


def advice_on_dicts(chunks: Sequence[Any]) -> list[Notice]:
    """Return notices about misspelt keys and scores without a kind; values that are not dicts are skipped."""
    dicts = [chunk for chunk in chunks if isinstance(chunk, Mapping)]
    return [*_misspelt(dicts), *_scores_without_kind(dicts)]


def _misspelt(chunks: Sequence[Mapping[str, Any]]) -> Iterator[Notice]:
    """Yield a notice for each unknown key that is close to a known key missing from its dict."""
    counts = Counter((key, meant) for chunk in chunks for key in chunk if (meant := _meant(key, chunk)) is not None)
    for (key, meant), count in sorted(counts.items()):
        message = f"{count} chunk dict(s) have the unknown key {key!r}: did you mean {meant!r}? It is kept but not read"
        yield Notice(NoticeCode.KEY_MISSPELT, "", message, {"key": key, "meant": meant, "count": count})


def _meant(key: Any, chunk: Mapping[str, Any]) -> str | None:
    if not isinstance(key, str) or key in CHUNK_KEYS or key.startswith("_"):
        return None
    names = [name for name in _NAMES if name not in chunk and abs(len(name) - len(key)) <= _MOST_LENGTH_DIFFERENCE]
    close = get_close_matches(key.casefold(), names, n=1, cutoff=_LEAST_LIKENESS)
    return close[0] if close else None


def _scores_without_kind(chunks: Sequence[Mapping[str, Any]]) -> Iterator[Notice]:
    count = sum(
        chunk.get("score") is not None and all(chunk.get(key) is None for key in _RELEVANCE) for chunk in chunks
    )
    if count:
        message = (
            f"{count} chunk dict(s) have 'score' without 'score_kind', so the engine's own lexical score ranks them: "
            "name its kind, e.g. 'score_kind': 'cosine', or give relevance from 0 to 1 as 'relevance_score'"
        )
        yield Notice(NoticeCode.SCORE_KIND_MISSING, "", message, {"count": count})
