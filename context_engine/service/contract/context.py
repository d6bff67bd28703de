"""Contracts of `POST /api/v1/rag/context` and `/rerank`."""

from __future__ import annotations

from typing import Annotated, Any, Literal, Self

from pydantic import ConfigDict, Field, StringConstraints, model_validator

from context_engine.service.contract.chunks import Namespace, RetrievalChunk
from context_engine.service.contract.rag import (
    Answered,
    Asked,
    ContextString,
    Flag,
    GivenChunks,
    MaxChars,
    MaxTokens,
    Query,
)

_ID = Annotated[str, StringConstraints(min_length=1, max_length=200)]
_ROLE = Annotated[str, StringConstraints(min_length=1, max_length=500)]


def _only(field: str, other: str) -> dict[str, Any]:
    """Return the schema of an object that has `field` and not `other`."""
    return {"required": [field], "properties": {field: {"not": {"type": "null"}}, other: {"type": "null"}}}


class ContextRequest(Asked):
    """The chunks to assemble, given directly or by the search that found them."""

    model_config = ConfigDict(json_schema_extra={"oneOf": [_only("search_id", "chunks"), _only("chunks", "search_id")]})

    search_id: _ID | None = Field(
        None, description="Of one of your recent answers. The context is recorded with that search."
    )
    chunks: GivenChunks | None = Field(None, description="Instead of a search_id: chunks, best first. Not recorded.")
    max_tokens: MaxTokens | None = Field(
        None, description="Most tokens of the text; null: `context_max_tokens` of the search, no limit for chunks."
    )
    max_chars: MaxChars | None = Field(None, description="Most characters of the text.")
    form: Literal["markdown", "text", "full"] = Field(
        "markdown",
        description="markdown: one line about the origin of each passage; text: the same without Markdown; "
        "full: rank, scores, metadata and tags on separate lines.",
    )
    messages: Annotated[tuple[dict[str, Any], ...], Field(max_length=1000)] | None = Field(
        None,
        description="A chat, each message with role and content: it is returned with the context in its last system "
        "message, or in a new one before the last user message.",
        examples=[[{"role": "user", "content": "When is a loss reported?"}]],
    )
    role: _ROLE | None = Field(None, description="The role of the model in `system_prompt`; null: an assistant.")

    @model_validator(mode="after")
    def _one_of_two(self) -> Self:
        if (self.search_id is None) == (self.chunks is None):
            raise ValueError("give either search_id or chunks")
        return self


class ContextCitation(Answered):
    """The source of a citation label."""

    citation_label: str
    attribution: str = Field(description="As in the text: [Source: Event Reporting Procedure, Section 3.1].")
    namespace: Namespace
    source_id: str
    chunk_ids: tuple[str, ...] = Field(description="Several if neighbours of a document were merged into one passage.")
    doc_id: str | None
    document_version: str | None
    title: str
    section: str | None
    page: int | None
    canonical_url: str | None
    authority_tier: int | None
    trusted: bool = Field(description="False: the text stands in a fence.")
    truncated: bool = Field(description="The text of the passage is cut off.")


class ContextOmission(Answered):
    """A chunk that is not in the text."""

    namespace: Namespace
    source_id: str
    chunk_id: str
    rank: int
    reason: Literal["budget", "untrusted_share", "out_of_scope"] = Field(
        description="budget: it does not fit; untrusted_share: the budget for untrusted text is used up."
    )
    tokens: int | None = Field(description="Its size in the unit of the limit.")
    room: int | None = Field(description="The remaining space.")


class ContextResponse(Answered):
    """The context for a model; every chunk is in the text or in `left_out`."""

    search_id: str | None
    context_string: ContextString
    form: str
    citations: tuple[ContextCitation, ...]
    left_out: tuple[ContextOmission, ...]
    notes: tuple[str, ...] = Field(description="Notes about the search; part of the text.")
    system_prompt: str = Field(description="A prompt that contains the text and asks for citations by label.")
    messages: tuple[dict[str, Any], ...] | None = Field(description="The chat with the text in it, if one was given.")


_Count = Annotated[int, Field(strict=True, ge=1, le=1000)]


class RerankRequest(Asked):
    """Chunks, and the question to rank them by. Source, tier and trust are not verified but the caller's to state."""

    query: Query = Field(description="The question, in words.")
    chunks: GivenChunks
    top_k: _Count | None = Field(None, description="Most chunks returned; null: `stage2_top_k`.")
    domain: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="For the record; a registered domain's masking and retention rules apply."
    )
    enable_reranking: Flag | None = Field(None, description="Run the model reranker, if one is configured.")
    rerank_top_n: _Count | None = Field(None, description="Number of the best candidates that the reranker reads.")


class RerankResponse(Answered):
    """The ranking by the whole second stage, with the outcome of every chunk."""

    version: Literal["v1"] = "v1"
    status: str = Field(description="complete, or degraded if the reranker failed.")
    decision: str
    search_id: str = Field(description="Id of the record of this ranking.")
    request_id: str | None
    query: str
    domain: str
    chunks: tuple[RetrievalChunk, ...]
    total_given: int
    total_returned: int
    reranking_enabled: bool = Field(description="A model reranker has run.")
    rerank_model: str | None
    not_returned: tuple[dict[str, Any], ...] = Field(
        description="Every other chunk: source_id, chunk_id, outcome (merged, dropped), stage, reason, and if any, "
        "value, limit and into."
    )
    warnings: tuple[str, ...]
