"""A search in numbers, as the RAG API tells them."""

from __future__ import annotations

from math import fsum

from context_engine.core.models import Filter, SearchResult, filter_to_dict
from context_engine.service.contract.rag import PersonaThresholds, RetrievalStatistics


def statistics_of(result: SearchResult, *, asked: Filter | None, total_ms: float) -> RetrievalStatistics:
    """Return the statistics of a search.

    Args:
        asked: the filter as the caller wrote it.
        total_ms: the time of all of it.
    """
    times = {stage.name: stage.elapsed_ms for stage in result.stages}
    embedding_ms = max((one.embedding.elapsed_ms for one in result.sources if one.embedding), default=0.0)
    scores = [chunk.final for chunk in result.chunks]
    return RetrievalStatistics.model_construct(
        total_retrieved=len(result.fates),
        total_reranked=len(result.rerank_scores),
        total_returned=len(scores),
        top_score=max(scores, default=None),
        average_score=fsum(scores) / len(scores) if scores else None,
        namespaces_searched=tuple(one.source_id for one in result.sources if one.state != "failed"),
        filters_applied=filter_to_dict(asked),
        embedding_time_ms=round(embedding_ms, 3),
        search_time_ms=round(max(times.get("recall", 0.0) - embedding_ms, 0.0), 3),
        rerank_time_ms=times.get("rerank", 0.0),
        total_time_ms=round(total_ms, 3),
    )


def embedding_model(result: SearchResult) -> str | None:
    """Return the model that the question was searched by; several with commas, None where no vector was made here."""
    models = {one.embedding.model: None for one in result.sources if one.embedding}
    return ", ".join(models) or None


def thresholds_of(result: SearchResult) -> PersonaThresholds:
    """Return the values that a persona may set, as they were in force."""
    settings = result.settings.values
    return PersonaThresholds.model_construct(
        similarity_threshold=settings.similarity_threshold,
        max_results=settings.stage2_top_k,
        min_results=settings.min_chunks,
        rerank=settings.reranking_enabled,
        namespaces=settings.sources,
    )
