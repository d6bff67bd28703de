"""The closed vocabularies: score kinds, source types and tiers, trust, classification, outcomes."""

from __future__ import annotations

from enum import StrEnum
from typing import Final


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
