"""Contracts of the RAG API's requests and responses."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, StringConstraints

from context_engine.service.contract.chunks import RetrievalChunk
from context_engine.service.contract.comparison import Comparison


class Asked(BaseModel):
    """A request; unknown fields are refused. An error names the field and never quotes its value."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)


class Answered(BaseModel):
    """A response, or a part of one."""

    model_config = ConfigDict(frozen=True)


def _with_text(chunk: dict[str, Any]) -> dict[str, Any]:
    content = chunk.get("content")
    if not isinstance(content, str) or not content.strip():
        raise ValueError("a chunk needs its text in 'content'")
    for name in ("metadata", "provenance", "_provenance"):
        if chunk.get(name) is not None and not isinstance(chunk[name], Mapping):
            raise ValueError(f"{name} must be an object")
    return chunk


def _written(day: Any) -> Any:
    """Refuse numbers, which pydantic would take for seconds since 1970."""
    if isinstance(day, int | float):
        raise ValueError("a day is text: write it as 2025-06-30")
    return day


_OBJECT: Final = {"type": ["object", "null"]}
_GIVEN: Final = {
    "type": "object",
    "required": ["content"],
    "properties": {"content": {"type": "string", "minLength": 1}, "metadata": _OBJECT, "provenance": _OBJECT},
}
Flag = Annotated[bool, Field(strict=True)]
Day = Annotated[date, BeforeValidator(_written)]
Query = Annotated[str, Field(min_length=1, max_length=10_000)]
MaxTokens = Annotated[int, Field(strict=True, ge=64, le=1_000_000)]
MaxChars = Annotated[int, Field(strict=True, ge=256, le=10_000_000)]

GivenChunks = Annotated[
    tuple[Annotated[dict[str, Any], AfterValidator(_with_text)], ...],
    Field(
        max_length=1000,
        description="Chunks as returned by this API or by `context_engine.rag`; each needs `content`, all other fields "
        "are optional.",
        examples=[[{"content": "Losses above USD 10,000 are reported within a day.", "chunk_id": "sop-1#3"}]],
        json_schema_extra={"items": _GIVEN},
    ),
]

API_VERSION: Final = "v1"
Unit = Annotated[float, Field(strict=True, ge=0.0, le=1.0, allow_inf_nan=False)]
TopK = Annotated[int, Field(strict=True, ge=1, le=1000)]
Name = Annotated[str, StringConstraints(min_length=1, max_length=200)]
Milliseconds = Annotated[float, Field(ge=0.0)]


class RAGQueryRequest(Asked):
    """A question for one domain; omitted values come from the persona, then the settings, then the default."""

    # `default=` is written out: without it a type checker of a user takes the fields for mandatory ones.

    model_config = ConfigDict(
        json_schema_extra={"examples": [{"query": "Who approves a new product?", "domain": "NPA", "top_k": 5}]}
    )

    query: Annotated[str, Field(min_length=1, max_length=10_000)] = Field(description="The question, in words.")
    domain: Name | None = Field(default=None, description="A registered domain; may be omitted if there is only one.")
    persona_key: Name | None = Field(default=None, description="A persona: GET /api/v1/rag/personas lists them.")
    namespaces: Annotated[tuple[Name, ...], Field(max_length=200)] | None = Field(
        default=None,
        description="Namespaces or ids of sources to search; null: those of the persona, else all of the domain.",
    )
    filters: dict[str, Any] | str | None = Field(
        default=None,
        description='Conditions on the fields of the documents: {"year_gte": 2020, "doc_type": ["sop_document"]}, a '
        'tree of and/or/not, or an expression such as "version=3.2; year>=2024".',
    )
    top_k: TopK | None = Field(default=None, description="Most chunks returned.")
    similarity_threshold: Unit | None = Field(
        default=None,
        description="Least cosine of a chunk; chunks of sources without cosines pass, and are marked. Refused if no "
        "source has cosines.",
    )
    enable_reranking: Flag | None = Field(default=None, description="Run the model reranker, if one is configured.")
    rerank_top_n: TopK | None = Field(
        default=None, description="Number of the best candidates that the reranker reads."
    )
    include_context_string: Flag = Field(default=True, description="Return the context string for a model.")
    max_tokens: Annotated[int, Field(strict=True, ge=64, le=1_000_000)] | None = Field(
        default=None, description="Most tokens of the context string, and of the chunks of one part of the answer."
    )
    max_chars: Annotated[int, Field(strict=True, ge=256, le=10_000_000)] | None = Field(
        default=None, description="Most characters of the context string."
    )
    cursor: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        default=None,
        description="Of the previous part: returns the next part of the same answer; other fields are ignored.",
    )
    as_of: Day | None = Field(default=None, description="The day for which the answer must hold; null: today.")
    require_tiers: Annotated[tuple[Annotated[int, Field(strict=True, ge=1, le=5)], ...], Field(max_length=5)] = Field(
        default=(), description="Without a chunk of each of these tiers the decision is `incomplete`."
    )
    require_sources: Annotated[tuple[Name, ...], Field(max_length=200)] = Field(
        default=(), description="Without a chunk of each of these sources the decision is `incomplete`."
    )
    strict: Flag = Field(default=False, description="Refuse an incomplete answer with 409.")
    compare: Flag | None = Field(
        default=None, description="Return the baseline with the answer; null: as set by `compare_mode`."
    )
    settings: Annotated[dict[Name, Any], Field(max_length=200)] = Field(
        default={}, description="Settings for this search only, by name."
    )


class ContextString(Answered):
    """The context for a model."""

    formatted_context: str
    num_chunks: int
    total_tokens: int
    token_counter: str
    max_chunk_score: float | None


class RetrievalStatistics(Answered):
    """Counts, scores and times of a search."""

    total_retrieved: int = Field(description="Candidates of all sources.")
    total_reranked: int = Field(description="Candidates scored by the model reranker.")
    total_returned: int = Field(description="Chunks of the answer.")
    top_score: float | None = Field(description="Highest final_score; null without chunks.")
    average_score: float | None = Field(description="Mean final_score; null without chunks.")
    namespaces_searched: tuple[str, ...] = Field(description="Of the sources that answered, at least in part.")
    filters_applied: dict[str, Any] | None = Field(description="As a tree of and, or, not and conditions.")
    embedding_time_ms: Milliseconds = Field(description="For the vector of the query, if this service computed it.")
    search_time_ms: Milliseconds = Field(description="For the sources, without the vector.")
    rerank_time_ms: Milliseconds
    total_time_ms: Milliseconds = Field(description="For all of it: search, ranking, context string.")


class PersonaThresholds(Answered):
    """The effective values that a persona may set."""

    similarity_threshold: float | None
    max_results: int
    min_results: int
    rerank: bool
    namespaces: tuple[str, ...] | None


class EffectiveValue(Answered):
    """A value and its origin: the request, a persona, a file, a variable, the default."""

    value: Any
    origin: str


class SourceReport(Answered):
    """The outcome of one source."""

    source_id: str
    title: str
    state: Literal["ok", "empty", "partial", "failed"]
    chunks: int
    elapsed_ms: Milliseconds
    problem: str | None


class AnswerPart(Answered):
    """The position of a part in an answer that is too large for the budget."""

    number: int = Field(ge=1)
    of: int = Field(ge=1)
    cursor: str | None = Field(description="For the next part; null in the last one.")


class RAGPipelineResponse(Answered):
    """The answer to a `RAGQueryRequest`."""

    version: Literal["v1"] = API_VERSION
    status: str = Field(description="complete, or degraded if a source or a stage is missing from the answer.")
    decision: str = Field(description="The conclusion: answered, no_match, out_of_scope, incomplete.")
    search_id: str = Field(description="Id of the record of this search.")
    request_id: str | None
    query: str
    domain: str
    persona: str | None
    chunks: tuple[RetrievalChunk, ...]
    context_string: ContextString | None
    statistics: RetrievalStatistics
    persona_thresholds: PersonaThresholds
    reranking_enabled: bool
    embedding_model: str | None
    rerank_model: str | None
    effective: dict[str, EffectiveValue] = Field(description="Each setting in force and its origin.")
    sources: tuple[SourceReport, ...]
    warnings: tuple[str, ...]
    part: AnswerPart
    demo: bool = Field(description="The documents are those of a fictitious bank.")
    comparison: Comparison | None = Field(None, description="The baseline and the enhanced answer, if requested.")
