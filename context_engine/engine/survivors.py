"""What goes into stage 2, what travels through it, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from context_engine.models import (
    Chunk,
    Fate,
    Filter,
    Key,
    RankedChunk,
    RawAnswer,
    ScoreKind,
    Settings,
    SourceSpec,
    StageTrace,
    Swap,
)
from context_engine.ranking.candidates import Candidate

__all__ = ["Ranking", "RerankStep", "StageTwo", "Survivor"]

RerankStep = Callable[[str, Sequence[tuple[Key, Chunk]]], Mapping[Key, float] | None]
"""Scores candidates in [0, 1] by identity; None for "no opinion"; raises RerankerError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTwo:
    """Everything stage 2 depends on.

    Attributes:
        answers: stage 1, each with the source's declaration.
        as_of: the day asked about; `today` says that it is not past.
    """

    query: str
    domain: str
    answers: Sequence[tuple[SourceSpec, RawAnswer]]
    settings: Settings
    filters: Filter | None
    as_of: date
    today: bool
    now: datetime
    search_id: str


class Survivor:
    """A candidate on its way through stage 2, and its numbers so far; a merged one hangs on its survivor.

    A plain class, because a search makes hundreds: flags and members are tuples, shared while they are empty.
    """

    __slots__ = ("absolute", "candidate", "flags", "members", "relevance", "rerank_score")

    def __init__(self, candidate: Candidate) -> None:
        self.candidate = candidate
        self.relevance = 0.0
        self.absolute = 0.0
        self.rerank_score: float | None = None
        self.flags: tuple[str, ...] = ()
        self.members: tuple[tuple[Survivor, float], ...] = ()

    def best(self, kind: ScoreKind) -> float | None:
        """Return the highest score of a kind among the texts merged here, None where the survivor's own has none."""
        value = self.candidate.chunk.score(kind)
        if value is None or not self.members:
            return value
        merged = (member.candidate.chunk.score(kind) for member, _ in self.members)
        return max([value, *(score for score in merged if score is not None)])


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranking:
    """What stage 2 computes.

    Attributes:
        weighed: candidates that were tested against the scope threshold.
        in_scope: whether the best of them reached it.
        rerank_failed: the reranker's failure, None where it ran or was not asked.
    """

    chunks: tuple[RankedChunk, ...]
    fates: tuple[Fate, ...]
    swaps: tuple[Swap, ...]
    swap_count: int
    stages: tuple[StageTrace, ...]
    warnings: tuple[str, ...]
    weighed: int
    in_scope: bool
    rerank_scores: Mapping[Key, float]
    rerank_failed: str | None
