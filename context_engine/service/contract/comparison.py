"""The published comparison: the baseline, the enhanced answer, and their differences."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from context_engine.service.contract.chunks import ComparedChunk, Namespace, Rank

COMPARISON_VERSION: Final = "1.0"

ChangeCode = Literal[
    "merged",
    "below_similarity_threshold",
    "below_min_relevance",
    "out_of_scope",
    "document_limit",
    "too_similar",
    "duplicates_merged",
    "weaker_removed",
    "reranked",
    "exact_match",
    "newer",
    "authority",
    "limits",
]


class _Published(BaseModel):
    model_config = ConfigDict(frozen=True)


class ComparedContext(_Published):
    """The context that a model would get from one of the two lists."""

    text: str | None = Field(description="The context string; null if only its size was kept.")
    chars: int
    tokens: int
    token_counter: str
    num_chunks: int = Field(description="Number of chunks that fitted into the budget.")
    sha256: str = Field(description="Of the text in UTF-8.")


class Baseline(_Published):
    """The candidates by relevance, without dedup, filter, reranker, exact matches first, authority and limits."""

    choices: tuple[dict[str, Any], ...] = Field(
        (), description="The answer from these chunks; empty where only searches are compared."
    )
    chunks_used: int
    chunks_scores: tuple[float, ...] = Field(description="Absolute relevance of each chunk, best rank first.")
    chunks: tuple[ComparedChunk, ...]
    context: ComparedContext


class Enhanced(Baseline):
    """The answer."""

    filter_threshold: float = Field(description="min_relevance_score in force.")
    similarity_threshold: float | None
    scope_threshold: float | None
    fallback_triggered: bool = Field(description="min_chunks restored chunks below a threshold.")
    reranker_enabled: bool = Field(description="A reranker's scores were used.")
    status: str
    decision: str


class RankStep(_Published):
    """The effect of one engine step on a chunk; null rank: the chunk is not ranked."""

    step: str = Field(description="dedup, filter, rerank, exact_match, recency, authority or limits.")
    from_rank: Rank | None
    to_rank: Rank | None


class RankChange(_Published):
    """A chunk whose rank differs, and the reason."""

    namespace: Namespace
    source_id: str
    chunk_id: str
    from_rank: Rank | None = Field(description="Among the candidates by relevance; the baseline shows only top_k.")
    to_rank: Rank | None = Field(description="In the answer, likewise; null if it was merged or dropped.")
    code: ChangeCode
    reason: str = Field(description="The same in words.")
    value: float | str | None = Field(None, description="The number that was tested, if any.")
    limit: float | str | None = Field(None, description="The limit it was tested against.")
    steps: tuple[RankStep, ...] = Field(description="The steps from one rank to the other, in the engine's order.")
    because: tuple[str, ...] = Field(description="The chunks that caused it, as SOURCE/CHUNK; at most ten.")


class Difference(_Published):
    """The differences. Each chunk of either list is once in `same`, `moved`, `entered` or `left`."""

    same: tuple[str, ...] = Field(description="Chunks with the same rank in both, as SOURCE/CHUNK.")
    moved: tuple[RankChange, ...]
    entered: tuple[RankChange, ...]
    left: tuple[RankChange, ...]
    chars: int = Field(description="Characters of the enhanced context minus the baseline's.")
    tokens: int = Field(description="Tokens of the enhanced context minus the baseline's.")


class Comparison(_Published):
    """A search with its baseline. Both rank the same candidates: those that match and that the caller may read."""

    schema_version: Literal["1.0"] = COMPARISON_VERSION
    search_id: str
    request_id: str | None
    query: str | None = Field(description="The question; null if it must not be kept.")
    domain: str
    persona: str | None
    baseline: Baseline
    enhanced: Enhanced
    difference: Difference


class ComparisonAnswer(_Published):
    """The response of the comparison routes, and a line of a comparison file."""

    success: Literal[True] = True
    data: Comparison
