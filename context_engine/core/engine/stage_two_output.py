"""What stage 2 computes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from context_engine.core.models import Fate, Key, Notice, RankedChunk, ScopeThreshold, StageTrace, Swap


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
