"""One chunk of one search: its candidate, its fate, and the search run again with a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

from context_engine.core.engine import recompute, with_settings
from context_engine.core.engine.candidate_table import TextCache
from context_engine.core.models import Chunk, Fate, Key, Outcome, RankedChunk, SearchResult
from context_engine.core.ranking.candidates import AnalysedText, Candidate, pool
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

NO_CUT: Final = {"stage2_top_k": 10**9, "max_per_document": None, "mmr_lambda": None}
NO_LIMIT: Final = {**NO_CUT, "min_relevance_score": 0.0, "scope_threshold": 0.0, "similarity_threshold": None}
"""Settings under which everything is returned that is in force and not a copy."""


class CandidateIdentity(NamedTuple):
    """What identifies a chunk in every variation of a search.

    A key is not enough: if a source gives one id to several texts, all but one get another id, and which one keeps it
    depends on the other candidates.
    """

    source_id: str
    chunk_id: str
    content: str


def identity_of(source_id: str, chunk: Chunk) -> CandidateIdentity:
    return CandidateIdentity(source_id, chunk.chunk_id or content_sha256(chunk.content)[:32], chunk.content)


def candidates_of(result: SearchResult, analyse: Callable[[str], AnalysedText] = AnalysedText) -> dict[Key, Candidate]:
    """Return the candidates of stage 1 by key."""
    specs = {spec.id: spec for spec in result.specs}
    pooled, _ = pool(((specs[answer.source_id], answer) for answer in result.raw), analyse)
    return {candidate.key: candidate for candidate in pooled}


class Case:
    """A candidate of a search.

    Args:
        result: the search, from `recompute`.
        key: of the candidate; the result has a fate for it.
        analyse: a cache of analysed texts, because the search is recomputed many times.

    Attributes:
        candidates: all candidates of stage 1.
        fate: the fate of this one.
    """

    def __init__(self, result: SearchResult, key: Key, analyse: Callable[[str], AnalysedText]) -> None:
        self.result, self.key, self.analyse = result, key, analyse
        self.candidates = candidates_of(result, analyse)
        self.candidate = self.candidates[key]
        self.identity = identity_of(key[0], self.candidate.chunk)
        self.fate: Fate = next(fate for fate in result.fates if (fate.source_id, fate.chunk_id) == key)

    @classmethod
    def of(cls, result: SearchResult, key: Key, analyse: Callable[[str], AnalysedText] | None = None) -> Self:
        """Return the case of a chunk in a recorded result.

        Raises:
            InvalidRequest: the result does not contain its request.
        """
        analyse = analyse or TextCache().analysed
        return cls(recompute(result, analyse), key, analyse)

    def again(self, changed: SearchResult) -> SearchResult | None:
        """Recompute a changed search; None if the engine refuses the change."""
        try:
            return recompute(changed, self.analyse)
        except InvalidRequest:
            return None

    def again_shows(self, changed: SearchResult) -> bool:
        """Return whether a changed search, recomputed, shows the chunk."""
        result = self.again(changed)
        return result is not None and self.shown_in(result) is not None

    def shown_in(self, result: SearchResult) -> RankedChunk | None:
        """Return the chunk as another result shows it; None if that result does not show it."""
        shown = (chunk for chunk in result.chunks if identity_of(chunk.source_id, chunk.chunk) == self.identity)
        return next(shown, None)

    def followed(self, result: SearchResult) -> Case | None:
        """Return the case of the same chunk in another result, None if it is no candidate there."""
        for key, candidate in candidates_of(result, self.analyse).items():
            if identity_of(key[0], candidate.chunk) == self.identity:
                return Case(result, key, self.analyse)
        return None

    @property
    def progress(self) -> int:
        """The index of the last stage that the chunk reached; one past the last if it is shown."""
        return len(STAGES) if self.fate.outcome is Outcome.RETURNED else STAGES.index(self.fate.stage)

    @cached_property
    def uncut(self) -> SearchResult:
        """The search with everything returned that was ranked."""
        return recompute(with_settings(self.result, **NO_CUT), self.analyse)

    @cached_property
    def unlimited(self) -> SearchResult:
        """The search with everything returned that is in force and not a copy; it has every number that limits test."""
        return recompute(with_settings(self.result, **NO_LIMIT), self.analyse)


SWITCH: Final = 10.0
"""The size of turning a switch, in steps."""

STAGES: Final = ("filter", "as_of", "expiry", "measure", "dedup", "threshold", "scope", "relevance", "rerank", "select")
"""The stages of stage 2 in order."""

_DIGITS: Final = 6  # beyond, differences are rounding errors

_SETTINGS: Final = (
    *("stage2_top_k", "min_relevance_score", "scope_threshold", "similarity_threshold", "max_per_document"),
    *("min_chunks", "dedup_threshold", "dedup_method", "expired", "exact_first", "mmr_lambda", "rerank_weight"),
    *("learnt_blend", "reranking_enabled", "relevance_weight", "authority_weight"),
)
"""Settings that let more through come before those that change the ranking."""


class AnswerChangeKind(StrEnum):
    """The subject of a change. Of equally large changes, the kind listed first counts as smaller."""

    SETTING = "setting"
    SOURCE = "source"
    REQUEST = "request"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change to a search.

    Attributes:
        name: the key of a setting; SOURCE.tier or SOURCE.trust_class; filters or as_of; SOURCE/CHUNK of a removed text.
        was, now: JSON values; None for nothing.
        steps: its size.
        stage: the first stage that reads what is changed; earlier drops are unaffected.
        applied: applies the change to a result, which is then recomputed.
    """

    kind: AnswerChangeKind
    name: str
    was: Any
    now: Any
    steps: float
    stage: str
    applied: Callable[[SearchResult], SearchResult] = field(compare=False, repr=False)

    @property
    def order(self) -> tuple[float, int, int, str, str]:
        """The sort key, smallest change first."""
        place = _SETTINGS.index(self.name) if self.name in _SETTINGS else len(_SETTINGS)
        return self.steps, list(AnswerChangeKind).index(self.kind), place, self.name, str(self.now)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {"kind": str(self.kind), "name": self.name, "was": self.was, "now": self.now, "steps": self.steps}


def in_steps(distance: float) -> float:
    """Return a distance in steps of 0.01, rounded to a millionth so that equal distances compare equal.

    >>> in_steps(0.6 - 0.59), in_steps(0.15 - 0.14)
    (1.0, 1.0)
    """
    return round(abs(distance) / 0.01, _DIGITS)
