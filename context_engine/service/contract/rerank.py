"""`POST /api/v1/rag/rerank`: chunks that were found elsewhere, ranked."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field, StringConstraints

from context_engine.service.contract.forms import Answered, Asked, Flag, GivenChunks, Query
from context_engine.service.contract.rag import RetrievalChunk

_Count = Annotated[int, Field(strict=True, ge=1, le=1000)]


class RerankRequest(Asked):
    """Chunks, and the question that ranks them. What a chunk says of its source, tier and trust is taken at its word:
    who hands chunks over answers for them."""

    query: Query = Field(description="The question, in words.")
    chunks: GivenChunks
    top_k: _Count | None = Field(None, description="Most chunks returned; null: `stage2_top_k`.")
    domain: Annotated[str, StringConstraints(min_length=1, max_length=200)] | None = Field(
        None, description="For the record; where it is a registered domain, what it masks and keeps holds."
    )
    enable_reranking: Flag | None = Field(None, description="Run the model reranker, where one is configured.")
    rerank_top_n: _Count | None = Field(None, description="How many of the best candidates the reranker reads.")


class RerankResponse(Answered):
    """The ranking: the whole second stage, with the end of every chunk."""

    version: Literal["v1"] = "v1"
    status: str = Field(description="complete, or degraded where the reranker failed.")
    decision: str
    search_id: str = Field(description="Names the record of this ranking.")
    request_id: str | None
    query: str
    domain: str
    chunks: tuple[RetrievalChunk, ...]
    total_given: int
    total_returned: int
    reranking_enabled: bool = Field(description="A model reranker has run.")
    rerank_model: str | None
    not_returned: tuple[dict[str, Any], ...] = Field(
        description="Every other chunk: source_id, chunk_id, outcome (merged, dropped), stage, reason, and where there "
        "are any value, limit and into."
    )
    warnings: tuple[str, ...]
