"""A comparison as it is published: baseline beside enhanced, and what differs."""

from __future__ import annotations

from typing import Any, Final, Literal

from pydantic import BaseModel, ConfigDict, Field

from context_engine.service.contract.chunks import ComparedChunk, Rank

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
    "authority",
    "limits",
]


class _Published(BaseModel):
    model_config = ConfigDict(frozen=True)


class ComparedContext(_Published):
    """What a model would read of one of the two lists."""

    text: str | None = Field(description="The context string; null where only its size was kept.")
    chars: int
    tokens: int
    token_counter: str
    num_chunks: int = Field(description="Chunks in it: those that fitted into the budget.")
    sha256: str = Field(description="Of the text in UTF-8.")


class Baseline(_Published):
    """The pool by relevance, without dedup, filter, reranker, exact matches first, authority and limits."""

    choices: tuple[dict[str, Any], ...] = Field((), description="Answers of a model; empty where none was asked.")
    chunks_used: int
    chunks_scores: tuple[float, ...] = Field(description="Absolute relevance of each chunk, best rank first.")
    chunks: tuple[ComparedChunk, ...]
    context: ComparedContext


class Enhanced(Baseline):
    """The answer."""

    filter_threshold: float = Field(description="min_relevance_score in force.")
    similarity_threshold: float | None
    scope_threshold: float | None
    fallback_triggered: bool = Field(description="min_chunks brought chunks back that were below a threshold.")
    reranker_enabled: bool = Field(description="A reranker's scores took part.")
    status: str
    decision: str


class RankStep(_Published):
    """What one step of the engine did to a chunk; null: it is not among the ranked."""

    step: str = Field(description="dedup, filter, rerank, exact_match, authority or limits.")
    from_rank: Rank | None
    to_rank: Rank | None


class RankChange(_Published):
    """A chunk whose place differs, and why."""

    namespace: str
    chunk_id: str
    from_rank: Rank | None = Field(description="In the pool by relevance; beyond top_k the baseline does not show it.")
    to_rank: Rank | None = Field(description="In the answer, likewise; null where it was merged or dropped.")
    code: ChangeCode
    reason: str = Field(description="The same in words.")
    value: float | str | None = Field(None, description="The number that was tested, where one was ...")
    limit: float | str | None = Field(None, description="... and what it was tested against.")
    steps: tuple[RankStep, ...] = Field(description="The way from the one rank to the other, in the engine's order.")
    because: tuple[str, ...] = Field(description="Chunks that stand behind it, as SOURCE/CHUNK; ten at most.")


class Difference(_Published):
    """What differs. Each chunk of either list stands once, in `same`, `moved`, `entered` or `left`."""

    same: tuple[str, ...] = Field(description="Chunks with the same rank in both, as SOURCE/CHUNK.")
    moved: tuple[RankChange, ...]
    entered: tuple[RankChange, ...]
    left: tuple[RankChange, ...]
    chars: int = Field(description="Characters of the enhanced context less those of the baseline's.")
    tokens: int = Field(description="Tokens of the enhanced context less those of the baseline's.")


class Comparison(_Published):
    """A search with its baseline. Both rank the same candidates: those that the caller may read and asked for."""

    schema_version: Literal["1.0"] = COMPARISON_VERSION
    search_id: str
    request_id: str | None
    query: str | None = Field(description="The question; null where it must not be kept.")
    domain: str
    persona: str | None
    baseline: Baseline
    enhanced: Enhanced
    difference: Difference


class ComparisonAnswer(_Published):
    """The answer of the routes that compare, and a line of a file of comparisons."""

    success: Literal[True] = True
    data: Comparison
