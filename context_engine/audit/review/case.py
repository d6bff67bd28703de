"""One chunk of one search: its candidate, its fate, and the search again with something changed."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Final, NamedTuple, Self

from context_engine.audit.review.changes import STAGES
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
    found, _ = pool(((specs[answer.source_id], answer) for answer in result.raw), analyse)
    return {candidate.key: candidate for candidate in found}


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
        shown = (one for one in result.chunks if identity_of(one.source_id, one.chunk) == self.identity)
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
