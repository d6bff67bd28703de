"""A piece of text as its source returns it, with its scores and origin, and the closed vocabularies for them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from datetime import UTC, date, datetime
from enum import StrEnum
from math import isfinite
from typing import Any, Final, NamedTuple


class ScoreKind(StrEnum):
    """The meaning of a score; scores of different kinds are never compared.

    cosine [-1, 1] · bm25, fulltext, lexical [0, inf) · rrf [0, lists/(k+1)] · weighted, relevance [0, 1] ·
    rerank [0, 1], or a logit · unknown: any number whose meaning the source does not state; it ranks nothing.
    """

    COSINE = "cosine"
    BM25 = "bm25"
    FULLTEXT = "fulltext"
    LEXICAL = "lexical"
    RRF = "rrf"
    WEIGHTED = "weighted"
    RERANK = "rerank"
    RELEVANCE = "relevance"
    UNKNOWN = "unknown"


class SourceType(StrEnum):
    """The five kinds of source, most authoritative first."""

    SYSTEM_OF_RECORD = "system_of_record"
    BANK_SOP = "bank_sop"
    INDUSTRY_STANDARD = "industry_standard"
    EXTERNAL_OFFICIAL = "external_official"
    GENERAL_WEB = "general_web"


TIER_OF: Final[dict[SourceType, int]] = {kind: tier for tier, kind in enumerate(SourceType, start=1)}
TIERS: Final[tuple[int, ...]] = tuple(TIER_OF.values())


class TrustClass(StrEnum):
    """Whether a text is trusted as content; untrusted text is fenced in a context."""

    TRUSTED = "TRUSTED"
    UNTRUSTED = "UNTRUSTED"


def default_trust(tier: int) -> TrustClass:
    """Return TRUSTED for tiers 1-4, UNTRUSTED for tier 5."""
    return TrustClass.UNTRUSTED if tier >= 5 else TrustClass.TRUSTED


class Classification(StrEnum):
    """Who may see a text, least restricted first; `rank` orders them."""

    PUBLIC = "public"
    INTERNAL = "internal"
    CONFIDENTIAL = "confidential"
    RESTRICTED = "restricted"

    @classmethod
    def _missing_(cls, value: object) -> Classification | None:
        """Accept a name in any case and with white space around it."""
        return next(
            (member for member in cls if isinstance(value, str) and member.value == value.strip().casefold()), None
        )

    @property
    def rank(self) -> int:
        """0 for public up to 3 for restricted."""
        return _RANKS[self]


_RANKS: Final = {classification: rank for rank, classification in enumerate(Classification)}


class Confidence(StrEnum):
    """How certain it is that a text is about the question, on the same scale for every question."""

    STRONG = "strong"
    FAIR = "fair"
    WEAK = "weak"


class FetchedAtBasis(StrEnum):
    """Which event `fetched_at` is the time of."""

    ORIGIN = "origin"
    INDEXED = "indexed"
    RETRIEVED = "retrieved"


class Status(StrEnum):
    """Whether all, some or none of the sources answered."""

    COMPLETE = "complete"
    DEGRADED = "degraded"
    FAILED = "failed"


class Decision(StrEnum):
    """What may be concluded from the result."""

    ANSWERED = "answered"
    NO_MATCH = "no_match"
    OUT_OF_SCOPE = "out_of_scope"
    INCOMPLETE = "incomplete"


class Outcome(StrEnum):
    """What became of a candidate; each has exactly one outcome."""

    RETURNED = "returned"
    MERGED = "merged"
    DROPPED = "dropped"


class _EmptyMapping(dict[str, Any]):
    """An immutable empty mapping: the shared default of fields that hold a mapping."""

    def __setitem__(self, key: str, value: Any) -> None:
        raise TypeError("this is the shared empty mapping; pass a mapping of your own")

    update = setdefault = __ior__ = __setitem__  # type: ignore[assignment]

    def __reduce__(self) -> str:
        return "NOTHING"


NOTHING: Final[Mapping[str, Any]] = _EmptyMapping()
PLACE_OF_MATCH: Final = "place_of_match"
"""Key in `extra`: section, headings, page and reference describe the part of the text that matched, not its start."""
Key = tuple[str, str]
"""A candidate's identity: (source_id, chunk_id)."""


class Score(NamedTuple):
    """A number with its meaning.

    Attributes:
        value: finite, in the range of its kind (`_RANGES`).
        scorer: who computed it (an index, a model). Scores of one kind and one scorer are comparable across sources;
            None: comparable only within the answer it came in.
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
"""Range of each kind. Cosine and weighted allow for rounding errors of a model; a rerank score may be a logit."""


def usable_score(kind: ScoreKind, value: Any) -> float | None:
    """Return the number as a float if it is in the range of its kind, else None: it counts as absent."""
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
    """A text as its source returns it, with everything the source knows about it. None means "not known", never 0.

    A named tuple, because a search builds hundreds of them; pass the fields by name.

    Attributes:
        content: the text; never empty.
        chunk_id: unique and stable within the source; "": the hash of the text is used.
        source_id: the source it claims; read only if the answering source may return chunks of other sources.
        scores: at most one per kind.
        document_id, document_version, dataset_id: the place of the text in the source.
        title, section, heading_path, doc_type: the document's title, section number, headings from the top, type.
        position: 0-based place of the chunk in its document.
        span: character offsets [start, end) in the document's text.
        source_type, authority_tier, trust_class, classification: the document's own claims; the manifest limits them.
        fetched_at: when the content left its origin, timezone-aware; `fetched_at_basis` names the event.
        ttl_seconds: how long the content stays fresh after `fetched_at`.
        effective_from, effective_to: first day in force, first day no longer in force.
        superseded_by: the version or document that replaced this one.
        metadata: any further fields, JSON values; filters see them.
        extra: unknown keys of a chunk dict, passed through unread.
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
        """Return the score of one kind, or None."""
        for score in self.scores:
            if score.kind is kind:
                return score.value
        return None

    @property
    def path(self) -> str | None:
        """The document's file, relative to the folder it was ingested from; None if it has none."""
        source_file = self.own_field("source_file")
        return source_file if isinstance(source_file, str) and source_file else None

    @property
    def page(self) -> int | None:
        """The page the text begins on, 1-based; None if the document has no pages."""
        return self._place("page")

    @property
    def last_page(self) -> int | None:
        """The page the text ends on."""
        return self._place("page_end") or self.page

    @property
    def line(self) -> int | None:
        """The line of its file the text begins on, 1-based; None if it is not known."""
        return self._place("line")

    def _place(self, name: str) -> int | None:
        value = self.own_field(name)
        if isinstance(value, bool) or not isinstance(value, int | float | str):
            return None
        digits = f"{value:g}" if isinstance(value, float) else str(value).strip()
        return int(digits) if digits.isdecimal() and len(digits) < 10 and int(digits) > 0 else None

    def own_field(self, *names: str) -> Any:
        """Return the first of these fields that has a value, in the metadata, then in `extra`; None if none has."""
        for name in names:
            for fields in (self.metadata, self.extra):
                value = fields.get(name) if isinstance(fields, Mapping) else None
                if value not in (None, "", [], ()):
                    return value
        return None

    def to_dict(self) -> dict[str, Any]:
        """Return the chunk dict, JSON-ready: the fields that have a value, and the keys of `extra`."""
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
    """Return an aware moment as UTC ISO 8601 to the second (microseconds if any), ending in Z.

    >>> utc_text(datetime(2026, 3, 2, 10, tzinfo=UTC))
    '2026-03-02T10:00:00Z'
    """
    return moment.astimezone(UTC).isoformat().replace("+00:00", "Z")


_READY: Final = frozenset((str, int, bool))


def json_value(value: Any) -> Any:
    """Return a JSON-ready copy: dates as text, sets sorted, NaN and infinities as null; other values unchanged."""
    if value is None or type(value) in _READY:  # almost every value, and five checks by `isinstance` are slow
        return value
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
