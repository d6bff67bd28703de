"""Where a candidate stood: its numbers, and how far it was from being shown."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from context_engine.audit.review.case import Case
from context_engine.core.models import Key, Outcome, RankedChunk


@dataclass(frozen=True, slots=True, kw_only=True)
class Standing:
    """The numbers of a candidate that came as far as to be measured.

    Attributes:
        tier: its authority tier.
        relevance, absolute, boost, final, rerank_score: as in `RankedChunk`; of one that was merged into another its
            own relevance alone is known.
        place: among all that were ranked, from 1; None where it was dropped before.
        ranked: how many were ranked.
        last: the final score of the last chunk shown; None where none is.
        supposed: it was dropped before it was ranked: relevance, boost and final are those that it would have had with
            every limit lifted.
    """

    tier: int
    relevance: float
    absolute: float | None = None
    boost: float | None = None
    final: float | None = None
    rerank_score: float | None = None
    place: int | None = None
    ranked: int = 0
    last: float | None = None
    supposed: bool = False

    @property
    def gap(self) -> float | None:
        """The final score of the last chunk shown minus its own; negative where other rules passed it over."""
        return None if self.final is None or self.last is None else self.last - self.final

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {**asdict(self), "gap": self.gap}


def standing_of(case: Case) -> Standing | None:
    """Return where a candidate stood; None where it was dropped before it was measured."""
    if case.fate.outcome is Outcome.MERGED:
        return _of_merged(case, case.fate.into)
    chunk, supposed = case.shown_in(case.uncut), False
    if chunk is None and case.fate.stage in ("threshold", "scope", "relevance"):
        chunk, supposed = case.shown_in(case.unlimited), True
    return None if chunk is None else _of_ranked(case, chunk, supposed)


def _of_ranked(case: Case, chunk: RankedChunk, supposed: bool) -> Standing:
    shown = case.result.chunks
    return Standing(
        tier=chunk.authority_tier,
        relevance=chunk.relevance,
        absolute=chunk.absolute,
        boost=chunk.boost,
        final=chunk.final,
        rerank_score=chunk.rerank_score,
        place=None if supposed else chunk.rank,
        ranked=len(case.uncut.chunks),
        last=shown[-1].final if shown else None,
        supposed=supposed,
    )


def _of_merged(case: Case, into: Key | None) -> Standing | None:
    """Return the relevance that a text had before it was merged: the one that it was merged into lists it."""
    for chunk in case.unlimited.chunks:
        if (chunk.source_id, chunk.chunk_id) == into:
            for member in chunk.also_in:
                if (member.source_id, member.chunk_id) == case.key:
                    return Standing(tier=member.authority_tier, relevance=member.relevance)
    return None
