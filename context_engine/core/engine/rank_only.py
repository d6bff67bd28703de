"""Stage 2 over chunks that were retrieved elsewhere."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC

from context_engine.core.engine.admission import usable
from context_engine.core.engine.assemble import assemble, stage_two
from context_engine.core.engine.clock import SystemClock, TimeSortedIds
from context_engine.core.engine.refining import prepared_query
from context_engine.core.engine.reranking import TimedReranker, rerank_step
from context_engine.core.engine.stage2 import rank
from context_engine.core.models import (
    Chunk,
    EffectiveSettings,
    Notice,
    RawAnswer,
    SearchRequest,
    SearchResult,
    SourceSpec,
    SourceStatus,
    about,
)
from context_engine.core.protocols import Clock, IdSource, Reranker

__all__ = ["rank_chunks"]


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
) -> SearchResult:
    """Rank chunks as if a source had just answered with them, however many they are.

    Args:
        request: its query ranks, read as in a search of a domain without glossary: whose chunks these are, no domain
            says. Its filters, day and requirements apply.
        spec: the source they count as; with `trust_document_metadata` each chunk speaks for itself.
        chunks: each with text.
        notices: what a reader should know about them.
    """
    clock, ids = clock or SystemClock(), ids or TimeSortedIds()
    now = clock.now()
    found = list(notices)
    chunks = tuple(usable(chunk, found) for chunk in chunks)
    raw = RawAnswer(source_id=spec.id, chunks=chunks, retrieved_at=now)
    status = SourceStatus(
        source_id=spec.id,
        title=spec.title,
        source_type=str(spec.type),
        authority_tier=spec.tier,
        state="ok" if chunks else "empty",
        asked=len(chunks),
        chunks=len(chunks),
        notices=about(spec.id, found),
    )
    day = now.astimezone(UTC).date()
    as_of = request.as_of or day
    given = stage_two(
        request,
        settings,
        [spec],
        [raw],
        now=now,
        as_of=as_of,
        today=as_of >= day,
        search_id=ids.new(now),
        prepared=prepared_query(request.query, {}, settings.values, None),
    )
    lane = None if reranker is None else TimedReranker(reranker, clock)
    step = rerank_step(lane, settings.values, lambda: settings.values.deadline_s)
    return assemble(
        given,
        rank(given, step, clock.monotonic),
        request=request,
        settings=settings,
        specs=[spec],
        statuses=(status,),
        recall_ms=0.0,
    )
