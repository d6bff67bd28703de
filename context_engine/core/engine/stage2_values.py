"""The input and the output of stage 2."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.models import (
    Chunk,
    Fate,
    Key,
    Notice,
    RankedChunk,
    RawAnswer,
    ScopeThreshold,
    SourceSpec,
    StageTrace,
    Swap,
)


class Reranked(NamedTuple):
    """What a model reranker gave.

    Attributes:
        scores: [0, 1], by identity.
        adapter: the id of the adapter that it compared vectors under; None for none.
    """

    scores: Mapping[Key, float]
    adapter: str | None = None


RerankStep = Callable[[str, Sequence[tuple[Key, Chunk]]], Reranked | None]
"""Scores candidates in [0, 1] by identity; None for "no opinion"; raises RerankerError."""


@dataclass(frozen=True, slots=True)
class StageTwoInput:
    """Everything stage 2 depends on, but for the reranker's scores.

    Attributes:
        plan: the request, sources, settings and clock reading of the search.
        answers: of the sources that gave one.
    """

    plan: SearchPlan
    answers: tuple[RawAnswer, ...]

    def by_source(self) -> list[tuple[SourceSpec, RawAnswer]]:
        """Return each answer with its source's declaration, in the order of the manifest."""
        answered = {answer.source_id: answer for answer in self.answers}
        return [(spec, answered[spec.id]) for spec in self.plan.specs if spec.id in answered]


@dataclass(frozen=True, slots=True, kw_only=True)
class StageTwoOutput:
    """The ranked chunks, and the account of every candidate.

    Attributes:
        scope_tested: candidates that were tested against the scope threshold.
        in_scope: whether the best of them reached it.
        scope: that threshold.
        rerank_scores: the model reranker's scores by identity; `rerank_adapter`: the adapter that they were made under.
        rerank_failed: the reranker's failure, None where it ran or was not called.
    """

    chunks: tuple[RankedChunk, ...]
    fates: tuple[Fate, ...]
    swaps: tuple[Swap, ...]
    swap_count: int
    stages: tuple[StageTrace, ...]
    notices: tuple[Notice, ...]
    scope_tested: int
    in_scope: bool
    scope: ScopeThreshold
    rerank_scores: Mapping[Key, float]
    rerank_adapter: str | None
    rerank_failed: str | None
