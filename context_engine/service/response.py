"""Converts a result of the engine into an answer of the RAG API."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import count
from math import fsum
from typing import Final

from context_engine.core.context import ApproxTokenCounter, for_a_model
from context_engine.core.models import (
    Context,
    ContextBlock,
    Filter,
    Key,
    RankedChunk,
    SearchResult,
    SearchSettings,
    SourceStatus,
    filter_to_dict,
    scorer_name,
)
from context_engine.core.protocols import Mask
from context_engine.service.contract.chunks import RetrievalChunk
from context_engine.service.contract.rag import (
    AnswerPart,
    ContextString,
    EffectiveValue,
    PersonaThresholds,
    RAGPipelineResponse,
    RetrievalStatistics,
    SourceReport,
)


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
    """Return the answer to a request, in one part; passages are masked if the domain masks contexts.

    Args:
        context: the context for a model; None if not wanted.
        asked: the filter as the caller wrote it.
        mask: the engine's mask.
        demo: whether the domains are the demo bank's.

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
    blocks = () if context is None else context.blocks
    labels = citation_labels(blocks, [(chunk.source_id, chunk.chunk_id) for chunk in result.chunks])
    titles = {source.source_id: source.title for source in result.sources}
    return tuple(
        retrieval_chunk(chunk, labels[chunk.source_id, chunk.chunk_id], titles.get(chunk.source_id, ""))
        for chunk in result.chunks
    )


def _effective(result: SearchResult) -> dict[str, EffectiveValue]:
    """Return the settings of a search, without process settings, which only an operator may see."""
    return {
        key: EffectiveValue.model_construct(**row)
        for key, row in result.settings_in_force().items()
        if key in SearchSettings.model_fields
    }


def source_reports(sources: Iterable[SourceStatus]) -> tuple[SourceReport, ...]:
    """Return a report for each source."""
    return tuple(
        SourceReport.model_construct(
            source_id=source.source_id,
            title=source.title,
            state=source.state,  # type: ignore[arg-type]  # one of the four that `SourceStatus` names
            chunks=source.chunks,
            elapsed_ms=source.elapsed_ms,
            problem=source.problem or None,
        )
        for source in sources
    )


def citation_labels(blocks: Sequence[ContextBlock], keys: Iterable[Key]) -> dict[Key, str]:
    """Return the citation label of each chunk: that of its block in the context; other chunks get the next numbers.

    Args:
        blocks: all blocks of the context, in its order; () numbers the chunks by rank.
        keys: identities of the chunks, best first.
    """
    labels = {(block.source_id, chunk_id): block.label for block in blocks for chunk_id in block.chunk_ids}
    numbers = count(len(blocks) + 1)
    for key in keys:
        if key not in labels:
            labels[key] = f"[{next(numbers)}]"
    return labels


def retrieval_chunk(ranked: RankedChunk, label: str, source_title: str) -> RetrievalChunk:
    """Return a chunk with everything needed to cite it; not validated again.

    Args:
        source_title: used if the document names no organisation; "" for none.
    """
    fields = ranked.fields()
    return RetrievalChunk.of(
        fields, citation_label=label, score=ranked.recalled, source_org=fields["source_org"] or source_title or None
    )


COUNTER: Final = ApproxTokenCounter()
"""Counts the tokens of every text in answers."""


def context_string(context: Context) -> ContextString:
    """Return a context with its length in tokens."""
    measured = context.counter == COUNTER.name
    return ContextString.model_construct(
        formatted_context=context.text,
        num_chunks=context.chunk_count,
        total_tokens=context.tokens if measured else COUNTER.count(context.text),
        token_counter=COUNTER.name,
        max_chunk_score=context.max_score,
    )


def statistics_of(result: SearchResult, *, asked: Filter | None, total_ms: float) -> RetrievalStatistics:
    """Return the statistics of a search."""
    times = {stage.name: stage.elapsed_ms for stage in result.stages}
    embedding_ms = max((source.embedding.elapsed_ms for source in result.sources if source.embedding), default=0.0)
    scores = [chunk.final for chunk in result.chunks]
    return RetrievalStatistics.model_construct(
        total_retrieved=len(result.fates),
        total_reranked=len(result.rerank_scores),
        total_returned=len(scores),
        top_score=max(scores, default=None),
        average_score=fsum(scores) / len(scores) if scores else None,
        namespaces_searched=tuple(
            dict.fromkeys(result.namespace_of(each.source_id) for each in result.sources if each.state != "failed")
        ),
        filters_applied=filter_to_dict(asked),
        embedding_time_ms=round(embedding_ms, 3),
        search_time_ms=round(max(times.get("recall", 0.0) - embedding_ms, 0.0), 3),
        rerank_time_ms=times.get("rerank", 0.0),
        total_time_ms=round(total_ms, 3),
    )


def embedding_model(result: SearchResult) -> str | None:
    """Return the embedding models of the search, comma-separated; None if no vector was made here."""
    models = {source.embedding.model: None for source in result.sources if source.embedding}
    return ", ".join(models) or None


def thresholds_of(result: SearchResult) -> PersonaThresholds:
    """Return the settings in force that a persona may set."""
    settings = result.settings.values
    return PersonaThresholds.model_construct(
        similarity_threshold=settings.similarity_threshold,
        max_results=settings.stage2_top_k,
        min_results=settings.min_chunks,
        rerank=settings.reranking_enabled,
        namespaces=settings.sources,
    )
