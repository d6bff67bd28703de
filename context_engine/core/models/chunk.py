"""A piece of text with its scores and origin, before and after ranking."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from math import isfinite
from typing import Any, Final, NamedTuple

from context_engine.core.models.enums import (
    Classification,
    Confidence,
    FetchedAtBasis,
    ScoreKind,
    SourceType,
    TrustClass,
)


class _EmptyMapping(dict[str, Any]):
    """An empty mapping that stays empty: the default of a field that holds a mapping."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("this is the shared empty mapping; pass a mapping of your own")

    update = setdefault = __ior__ = __setitem__  # type: ignore[assignment]

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Final[Mapping[str, Any]] = _EmptyMapping()

PLACE_OF_MATCH: Final = "place_of_match"
"""In a chunk's `extra`: section, headings, page and reference are those of what the question met in its text."""

Key = tuple[str, str]
"""A candidate's identity: (source_id, chunk_id)."""


class Score(NamedTuple):
    """A number with its meaning.

    Attributes:
        kind: what the number means.
        value: finite; its range is the kind's.
        scorer: who computed it (an index, a model). Scores of one kind and one scorer are comparable across sources;
            None means comparable only within the one answer it came in.
    """

    kind: ScoreKind
    value: float
    scorer: str | None = None


_MOST: Final = sys.float_info.max
_RANGES: Final = {
    ScoreKind.RELEVANCE: (0.0, 1.0),
    ScoreKind.COSINE: (-1.000001, 1.000001),
    ScoreKind.WEIGHTED: (-0.000001, 1.000001),
    ScoreKind.RRF: (0.0, _MOST),
    ScoreKind.BM25: (0.0, _MOST),
    ScoreKind.FULLTEXT: (0.0, _MOST),
    ScoreKind.LEXICAL: (0.0, _MOST),
    ScoreKind.RERANK: (-_MOST, _MOST),
    ScoreKind.UNKNOWN: (-_MOST, _MOST),
}
"""What a number of each kind may be; a model's arithmetic may stand a rounding error outside. Rerank may be a logit."""


def usable_score(kind: ScoreKind, value: Any) -> float | None:
    """Return the number as a float if it is finite and one its kind can be, None if it counts as absent."""
    if type(value) is not float:
        if isinstance(value, bool):
            return None
        try:
            value = float(value)
        except (TypeError, ValueError, OverflowError):
            return None
    low, high = _RANGES[kind]
    return value if low <= value <= high else None


class Chunk(NamedTuple):
    """What a source returns: a text and everything the source knows about it. None is "not known", never 0.

    A named tuple, because a search builds hundreds of them; pass the fields by name.

    Attributes:
        content: the text; never empty.
        chunk_id: unique and stable within the source; "" means "take the text's hash".
        source_id: the source it says it is from; read only where the answering source may speak for others.
        scores: at most one per kind.
        document_id, document_version, dataset_id: where the text stands in the source.
        title, section, heading_path, doc_type: the document's title, section number, headings from the top, type.
        position: 0-based place of the chunk in its document.
        span: character offsets [start, end) in the document's text.
        source_type, authority_tier, trust_class, classification: what the document claims; the manifest is a ceiling.
        fetched_at: when the content left its origin, aware; `fetched_at_basis` says which event that is.
        ttl_seconds: how long the content stays fresh after `fetched_at`.
        effective_from, effective_to: first day in force, first day no longer in force.
        superseded_by: the version or document that replaced this one.
        metadata: any further fields, JSON values; filters see them.
        extra: unknown keys of a chunk dict, carried through unread.
    """

    content: str
    chunk_id: str = ""
    source_id: str | None = None
    scores: tuple[Score, ...] = ()
    document_id: str | None = None
    document_version: str | None = None
    dataset_id: str | None = None
    title: str | None = None
    section: str | None = None
    heading_path: tuple[str, ...] = ()
    doc_type: str | None = None
    position: int | None = None
    span: tuple[int, int] | None = None
    source_type: SourceType | None = None
    authority_tier: int | None = None
    trust_class: TrustClass | None = None
    classification: Classification | None = None
    fetched_at: datetime | None = None
    fetched_at_basis: FetchedAtBasis | None = None
    ttl_seconds: int | None = None
    effective_from: date | None = None
    effective_to: date | None = None
    superseded_by: str | None = None
    metadata: Mapping[str, Any] = NOTHING
    extra: Mapping[str, Any] = NOTHING

    def score(self, kind: ScoreKind) -> float | None:
        """Return the score of one kind, None where there is none."""
        for score in self.scores:
            if score.kind is kind:
                return score.value
        return None

    @property
    def path(self) -> str | None:
        """The document's file, relative to the folder it was ingested from; None where it has none."""
        source_file = self._own("source_file")
        return source_file if isinstance(source_file, str) and source_file else None

    @property
    def page(self) -> int | None:
        """The page the text begins on, 1-based; None where there are no pages."""
        return self._place("page")

    @property
    def last_page(self) -> int | None:
        """The page the text ends on."""
        return self._place("page_end") or self.page

    @property
    def line(self) -> int | None:
        """The line of its file the text begins on, 1-based; None where it is not known."""
        return self._place("line")

    def _place(self, name: str) -> int | None:
        value = self._own(name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        digits = f"{value:g}" if isinstance(value, float) else str(value).strip()
        return int(digits) if digits.isdecimal() and len(digits) < 10 and int(digits) > 0 else None

    def _own(self, name: str) -> Any:
        """Return a field of the metadata, else of what stands beside it."""
        value = self.metadata.get(name)
        return self.extra.get(name) if value is None else value

    def to_dict(self) -> dict[str, Any]:
        """Return the chunk dict: known fields that have a value, `extra` beside them; JSON-ready."""
        out: dict[str, Any] = json_value(self.extra)
        for name in _PLAIN_FIELDS:
            value = getattr(self, name)
            if value not in (None, (), ""):
                out[name] = json_value(value)
        if self.metadata or "metadata" not in out:
            out["metadata"] = json_value(self.metadata)
        if self.scores:
            out["scores"] = [score._asdict() for score in self.scores]
        return out


_PLAIN_FIELDS: Final = tuple(name for name in Chunk._fields if name not in ("scores", "metadata", "extra"))


def utc_text(moment: datetime) -> str:
    """Return an aware moment as UTC ISO 8601 to the second (microseconds kept if any), ending in Z.

    >>> utc_text(datetime(2026, 3, 2, 10, tzinfo=UTC))
    '2026-03-02T10:00:00Z'
    """
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


def json_value(value: Any) -> Any:
    """Return a copy that JSON can hold: dates as text, sets in order, NaN and infinities null; other things stay."""
    if isinstance(value, datetime):
        return utc_text(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        return {str(key): json_value(element) for key, element in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        out = [json_value(element) for element in value]
        return sorted(out, key=repr) if isinstance(value, set | frozenset) else out
    return None if isinstance(value, float) and not isfinite(value) else value


class Member(NamedTuple):
    """A candidate that was merged into a survivor: its identity and what made its authority."""

    source_id: str
    chunk_id: str
    source_type: str
    authority_tier: int
    document_id: str | None
    document_version: str | None
    section: str | None
    title: str | None
    relevance: float
    similarity: float
    content_sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenanceTag:
    """Where a chunk comes from: the seven keys every returned chunk carries.

    Attributes:
        fetched_at: UTC ISO 8601 ending in Z.
        ttl_seconds: the source's, else the manifest's, else 3600.
        extra: chunk_id, rag_score, relevance, content_sha256, document and dataset, retrieved_at, fetched_at_basis,
            also_in, search_id, defaulted, flags.
    """

    source_id: str
    source_type: str
    authority_tier: int
    trust_class: str
    fetched_at: str
    ttl_seconds: int
    extra: Mapping[str, Any] = field(default_factory=dict)

    def to_dict(self) -> dict[str, Any]:
        """Return the tag as a dict with exactly the seven keys."""
        return {
            "source_id": self.source_id,
            "source_type": self.source_type,
            "authority_tier": self.authority_tier,
            "trust_class": self.trust_class,
            "fetched_at": self.fetched_at,
            "ttl_seconds": self.ttl_seconds,
            "extra": dict(self.extra),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedChunk:
    """A returned chunk with every number that put it in its place.

    Attributes:
        rank: 1-based.
        relevance: [0, 1], what entered the formula.
        absolute: [0, 1], the signal `min_relevance_score` was tested on.
        boost: the tier's authority boost, [0, 0.4] by default.
        final: 0.6 * relevance + 0.4 * boost by default.
        confidence: strong, fair or weak, from the absolute signal and the scope threshold in force.
        rerank_score: [0, 1] from a model reranker, None where none ran.
        url: the address of the text's place, by the source's template or the document's own; None where it has none.
        recalled: [0, 1], stage 1's relevance, before reranker and exact matches; None in what comes from a record.
        flags: below_threshold, threshold_not_applicable, expired, effective_unknown, superseded ...
    """

    rank: int
    source_id: str
    chunk_id: str
    domain: str
    chunk: Chunk
    source_type: SourceType
    authority_tier: int
    trust_class: TrustClass
    classification: Classification
    relevance: float
    absolute: float
    boost: float
    final: float
    rerank_score: float | None
    flags: tuple[str, ...]
    also_in: tuple[Member, ...]
    provenance: ProvenanceTag
    confidence: Confidence
    url: str | None = None
    recalled: float | None = field(default=None, compare=False)

    @property
    def content(self) -> str:
        """The chunk's text."""
        return self.chunk.content

    @property
    def title(self) -> str | None:
        """The document's title."""
        return self.chunk.title

    @property
    def section(self) -> str | None:
        """The number of the text's section."""
        return self.chunk.section

    @property
    def page(self) -> int | None:
        """The page the text begins on, 1-based."""
        return self.chunk.page

    def to_dict(self) -> dict[str, Any]:
        """Return the chunk dict of `context_engine.rag`: its keys, `_rag_score` with its parts, `_provenance`.

        `page` and `url` are there where they are known.
        """
        own = {key: value for key, value in self.chunk.to_dict().items() if key not in ("page", "url")}
        return {
            **own,
            **({} if self.page is None else {"page": self.page}),
            **({} if self.url is None else {"url": self.url}),
            "rank": self.rank,
            "source_id": self.source_id,
            "chunk_id": self.chunk_id,
            "source_type": str(self.source_type),
            "authority_tier": self.authority_tier,
            "trust_class": str(self.trust_class),
            "classification": str(self.classification),
            "domain": self.chunk.extra.get("domain", self.domain),
            "confidence": str(self.confidence),
            **({} if self.rerank_score is None else {"rerank_score": self.rerank_score}),
            "_rag_score": round(self.final, 4),
            "_relevance_score": round(self.relevance, 4),
            "_authority_boost": self.boost,
            "_provenance": self.provenance.to_dict(),
        }
