"""A result of the engine as the RAG API answers it."""

from __future__ import annotations

from collections.abc import Iterable

from context_engine.core.context import for_a_model
from context_engine.core.models import Context, Filter, SearchResult, SearchSettings, SourceStatus, scorer_name
from context_engine.core.protocols import Mask
from context_engine.service.contract.rag import (
    AnswerPart,
    EffectiveValue,
    RAGPipelineResponse,
    RetrievalChunk,
    SourceReport,
)
from context_engine.service.response.chunks import citation_labels, retrieval_chunk
from context_engine.service.response.context_text import context_string
from context_engine.service.response.statistics import embedding_model, statistics_of, thresholds_of


def response_of(
    result: SearchResult,
    context: Context | None,
    *,
    asked: Filter | None,
    mask: Mask | None,
    reranker: str | None,
    demo: bool,
    total_ms: float,
) -> RAGPipelineResponse:
    """Return the answer to a request, in one part; passages are masked where the domain masks contexts.

    Args:
        context: what a model is to read; None where it was not asked for.
        asked: the filter as the caller wrote it.
        mask: of the engine.
        reranker: the name of the engine's model reranker.
        demo: the domains are the fictitious bank's.
        total_ms: the time of all of it.

    Raises:
        MaskingError: a masker failed.
    """
    shown = for_a_model(result, mask)
    reranked = bool(result.rerank_scores)
    rerank_model = None if reranker is None or not reranked else scorer_name(reranker, result.rerank_adapter)
    return RAGPipelineResponse.model_construct(
        status=str(result.status),
        decision=str(result.decision),
        search_id=result.search_id,
        request_id=result.request_id,
        query=result.query,
        domain=result.domain,
        persona=None if result.request is None else result.request.persona,
        chunks=_chunks(shown, context),
        context_string=None if context is None else context_string(context),
        statistics=statistics_of(result, asked=asked, total_ms=total_ms),
        persona_thresholds=thresholds_of(result),
        reranking_enabled=reranked,
        embedding_model=embedding_model(result),
        rerank_model=rerank_model,
        effective=_effective(result),
        sources=source_reports(shown.sources),
        warnings=shown.warnings,
        part=AnswerPart.model_construct(number=1, of=1, cursor=None),
        demo=demo,
    )


def _chunks(result: SearchResult, context: Context | None) -> tuple[RetrievalChunk, ...]:
    labels = citation_labels(result.chunks, context)
    titles = {source.source_id: source.title for source in result.sources}
    return tuple(
        retrieval_chunk(chunk, labels[chunk.source_id, chunk.chunk_id], titles.get(chunk.source_id, ""))
        for chunk in result.chunks
    )


def _effective(result: SearchResult) -> dict[str, EffectiveValue]:
    """Return the settings of a search; those of the process are its operator's."""
    return {
        key: EffectiveValue.model_construct(**one)
        for key, one in result.settings_in_force().items()
        if key in SearchSettings.model_fields
    }


def source_reports(sources: Iterable[SourceStatus]) -> tuple[SourceReport, ...]:
    """Return what each source did."""
    return tuple(
        SourceReport.model_construct(
            source_id=one.source_id,
            title=one.title,
            state=one.state,  # type: ignore[arg-type]  # one of the four that `SourceStatus` names
            chunks=one.chunks,
            elapsed_ms=one.elapsed_ms,
            problem=one.problem or None,
        )
        for one in sources
    )
