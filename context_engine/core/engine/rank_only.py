"""Stage 2 over chunks that were retrieved elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

from context_engine.core.engine.admission import ValidatedAnswer, valid_chunk
from context_engine.core.engine.clock import SystemClock, TimeSortedIds
from context_engine.core.engine.pipeline import SearchPipeline
from context_engine.core.engine.recall import SourceReply
from context_engine.core.engine.recording import hand_over
from context_engine.core.engine.refining import prepared_query
from context_engine.core.engine.reranking import TimedReranker, rerank_step
from context_engine.core.engine.retriever import FixedAnswers, SourceOutcome
from context_engine.core.engine.search_plan import ClockReading, SearchPlan
from context_engine.core.engine.source_outcome import source_outcome
from context_engine.core.models import (
    AccessRecord,
    Chunk,
    EffectiveSettings,
    Notice,
    SearchRequest,
    SearchResult,
    SourceSpec,
    about,
)
from context_engine.core.policy.masking import as_kept
from context_engine.core.protocols import Clock, IdSource, Mask, Recorder, Reranker


def rank_chunks(
    request: SearchRequest,
    spec: SourceSpec,
    chunks: Sequence[Chunk],
    *,
    settings: EffectiveSettings,
    notices: Sequence[Notice] = (),
    reranker: Reranker | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    mask: Mask | None = None,
    recorder: Recorder | None = None,
) -> SearchResult:
    """Rank chunks as if a source had just answered with them, however many they are.

    Args:
        request: its query ranks, read as in a search of a domain without glossary: whose chunks these are, no domain
            says. Its filters, day and requirements apply.
        spec: the source they count as; with `trust_document_metadata` each chunk speaks for itself.
        chunks: each with text.
        notices: what a reader should know about them.
        mask: masks personal data that a reranker would read, where the settings say so.
        recorder: takes the result.

    Raises:
        ConfigError: the settings mask contexts, a reranker reads them, and there is no mask.
        AuditUnavailable: the result could not be recorded, and must not be given without.
    """
    clock, ids = clock or SystemClock(), ids or TimeSortedIds()
    now = clock.now()
    plan = SearchPlan(
        request=request,
        specs=(spec,),
        effective=settings,
        prepared=prepared_query(request.query, {}, settings.values, None),
        clock=ClockReading.at(now, UTC, request.as_of),
        search_id=ids.new(now),
    )
    timed_reranker = None if reranker is None else TimedReranker(reranker, clock)
    step = rerank_step(timed_reranker, settings.values, lambda: settings.values.deadline_s, mask)
    result = SearchPipeline(FixedAnswers([_outcome(spec, chunks, notices, now)]), step, clock.monotonic).run(plan)
    kept, access = as_kept(result, mask), AccessRecord(principal=request.principal)
    hand_over(recorder, lambda taker: taker.record(kept, access), f"ranking {result.search_id}")
    return result


def _outcome(spec: SourceSpec, chunks: Sequence[Chunk], notices: Sequence[Notice], now: datetime) -> SourceOutcome:
    """What a source would have done that answered with these chunks."""
    found = list(notices)
    valid = tuple(valid_chunk(chunk, found) for chunk in chunks)
    answer = ValidatedAnswer(valid, cut=0, rejected=0, notices=about(spec.id, found))
    return source_outcome(spec, SourceReply(answer, None, 0.0, retrieved_at=now, requested_top_k=len(valid)))
