"""One chunk of one search: its candidate, its fate, and the search run again with a change."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any, Final, NamedTuple, Self

from context_engine.core.engine import recompute, with_settings
from context_engine.core.engine.text_cache import TextCache
from context_engine.core.models import Chunk, Fate, Key, Outcome, RankedChunk, SearchResult
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.candidates import Candidate, pool
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

NO_CUT: Final = {"stage2_top_k": 10**9, "max_per_document": None, "mmr_lambda": None}

NO_LIMIT: Final = {**NO_CUT, "min_relevance_score": 0.0, "scope_threshold": 0.0, "similarity_threshold": None}
"""Settings under which everything is returned that is in force and no copy."""


class CandidateIdentity(NamedTuple):
    """What a chunk is known by in every variation of a search.

    A key alone will not do: where a source gives one id to several texts, all but one get another, and which one keeps
    it changes with what else is there.
    """

    source_id: str
    chunk_id: str
    content: str


def identity_of(source_id: str, chunk: Chunk) -> CandidateIdentity:
    """Return the identity of a source's chunk."""
    return CandidateIdentity(source_id, chunk.chunk_id or content_sha256(chunk.content)[:32], chunk.content)


def candidates_of(result: SearchResult, analyse: Callable[[str], AnalysedText] = AnalysedText) -> dict[Key, Candidate]:
    """Return the candidates of stage 1 by their keys."""
    specs = {spec.id: spec for spec in result.specs}
    pooled, _ = pool(((specs[answer.source_id], answer) for answer in result.raw), analyse)
    return {candidate.key: candidate for candidate in pooled}


class Case:
    """A candidate of a search.

    Args:
        result: the search, as `recompute` gives it.
        key: of the candidate; the result has a fate for it.
        analyse: a cache of analysed texts, for the search is computed many times.

    Attributes:
        candidates: all candidates of stage 1.
        fate: what became of this one.
    """

    def __init__(self, result: SearchResult, key: Key, analyse: Callable[[str], AnalysedText]) -> None:
        self.result, self.key, self.analyse = result, key, analyse
        self.candidates = candidates_of(result, analyse)
        self.candidate = self.candidates[key]
        self.identity = identity_of(key[0], self.candidate.chunk)
        self.fate: Fate = next(fate for fate in result.fates if (fate.source_id, fate.chunk_id) == key)

    @classmethod
    def of(cls, result: SearchResult, key: Key, analyse: Callable[[str], AnalysedText] | None = None) -> Self:
        """Return the case of a chunk in a result as it was recorded.

        Raises:
            InvalidRequest: the result does not hold its request.
        """
        analyse = analyse or TextCache().analysed
        return cls(recompute(result, analyse), key, analyse)

    def again(self, changed: SearchResult) -> SearchResult | None:
        """Return a changed search computed again; None where a search with the change is refused."""
        try:
            return recompute(changed, self.analyse)
        except InvalidRequest:
            return None

    def again_shows(self, changed: SearchResult) -> bool:
        """Return whether a changed search, computed again, shows the chunk."""
        result = self.again(changed)
        return result is not None and self.shown_in(result) is not None

    def shown_in(self, result: SearchResult) -> RankedChunk | None:
        """Return the chunk as another result shows it, None where that does not."""
        shown = (chunk for chunk in result.chunks if identity_of(chunk.source_id, chunk.chunk) == self.identity)
        return next(shown, None)

    def followed(self, result: SearchResult) -> Case | None:
        """Return the case of the same chunk in another result, None where that does not hold it."""
        for key, candidate in candidates_of(result, self.analyse).items():
            if identity_of(key[0], candidate.chunk) == self.identity:
                return Case(result, key, self.analyse)
        return None

    @property
    def progress(self) -> int:
        """The place of the last stage that the chunk came to; after the last where it is shown."""
        return len(STAGES) if self.fate.outcome is Outcome.RETURNED else STAGES.index(self.fate.stage)

    @cached_property
    def uncut(self) -> SearchResult:
        """The search with all returned that was ranked."""
        return recompute(with_settings(self.result, **NO_CUT), self.analyse)

    @cached_property
    def unlimited(self) -> SearchResult:
        """The search with all returned that is in force and no copy: every number that a limit is tested on."""
        return recompute(with_settings(self.result, **NO_LIMIT), self.analyse)


SWITCH: Final = 10.0
"""Steps of a switch that is turned."""

STAGES: Final = ("filter", "as_of", "expiry", "measure", "dedup", "threshold", "scope", "relevance", "rerank", "select")
"""Stage 2 in its order."""

_DIGITS: Final = 6

_SETTINGS: Final = (
    *("stage2_top_k", "min_relevance_score", "scope_threshold", "similarity_threshold", "max_per_document"),
    *("min_chunks", "dedup_threshold", "dedup_method", "expired", "exact_first", "mmr_lambda", "rerank_weight"),
    *("learnt_blend", "reranking_enabled", "relevance_weight", "authority_weight"),
)
"""Those that let more through come before those that change what counts."""


class AnswerChangeKind(StrEnum):
    """What is changed; of equally large changes the first here is the smaller."""

    SETTING = "setting"
    SOURCE = "source"
    REQUEST = "request"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change.

    Attributes:
        name: the key of a setting; SOURCE.tier or SOURCE.trust_class; filters or as_of; SOURCE/CHUNK of a text that
            is taken away.
        was, now: JSON values; None for nothing.
        steps: its size.
        stage: the first stage of stage 2 that reads what is changed: what was dropped before stays dropped.
        applied: gives a result with the change, to be computed again.
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
        """What sorts changes, the smallest first."""
        place = _SETTINGS.index(self.name) if self.name in _SETTINGS else len(_SETTINGS)
        return self.steps, list(AnswerChangeKind).index(self.kind), place, self.name, str(self.now)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {"kind": str(self.kind), "name": self.name, "was": self.was, "now": self.now, "steps": self.steps}


def in_steps(distance: float, step: float = 0.01) -> float:
    """Return a distance in steps, to a millionth of one: equal distances are equal whatever their numbers are.

    >>> in_steps(0.6 - 0.59), in_steps(0.15 - 0.14)
    (1.0, 1.0)
    """
    return round(abs(distance) / step, _DIGITS)
