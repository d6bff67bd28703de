"""The two stages in reading order; knows protocols only."""

from context_engine.core.engine.engine import Engine
from context_engine.core.engine.recompute import (
    blend_terms,
    rank_chunks,
    recompute,
    recorded_pool,
    stage_two_bytes,
    with_settings,
)
from context_engine.core.engine.reranking import reranker_id
from context_engine.core.engine.search_plan import SystemClock, TimeSortedIds

__all__ = [
    "Engine",
    "SystemClock",
    "TimeSortedIds",
    "blend_terms",
    "rank_chunks",
    "recompute",
    "recorded_pool",
    "reranker_id",
    "stage_two_bytes",
    "with_settings",
]
