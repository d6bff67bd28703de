"""What goes into stage 2, what travels through it, and what comes out."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from typing import NamedTuple

from context_engine.core.models import (
    Chunk,
    Fate,
    Filter,
    Key,
    Notice,
    PreparedQuery,
    RankedChunk,
    RawAnswer,
    Settings,
    SourceSpec,
    StageTrace,
    Swap,
)
from context_engine.core.ranking.candidates import Candidate

__all__ = ["Ranking", "RerankStep", "StageTwo", "Survivor"]

RerankStep = Callable[[str, Sequence[tuple[Key, Chunk]]], Mapping[Key, float] | None]
"""Scores candidates in [0, 1] by identity; None for "no opinion"; raises RerankerError."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTwo:
    """Everything stage 2 depends on.

    Attributes:
        prepared: how the query was understood; None where nothing was made of it.
        answers: stage 1, each with the source's declaration.
        as_of: the day asked about; `today` says that it is not past.
    """

    query: str
    prepared: PreparedQuery | None = None
    domain: str
    answers: Sequence[tuple[SourceSpec, RawAnswer]]
    settings: Settings
    filters: Filter | None
    as_of: date
    today: bool
    now: datetime
    search_id: str


class Survivor(NamedTuple):
    """A candidate that is returned, with every number it has.

    Attributes:
        relevance, absolute: its cluster's best.
        flags: what the steps noted.
        members: the candidates merged into it, each with its own relevance and its likeness to this one.
    """

    candidate: Candidate
    relevance: float
    absolute: float
    boost: float
    final: float
    rerank_score: float | None
    flags: tuple[str, ...]
    members: tuple[tuple[Candidate, float, float], ...]


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
    notices: tuple[Notice, ...]
    weighed: int
    in_scope: bool
    rerank_scores: Mapping[Key, float]
    rerank_failed: str | None
