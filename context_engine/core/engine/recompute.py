"""Stage 2 without stage 1: over a recorded result or over chunks that were retrieved elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any, Final

from context_engine.core.engine.admission import ValidatedAnswer, valid_chunk
from context_engine.core.engine.candidate_table import Reranked, StageTwoInput
from context_engine.core.engine.events import hand_over
from context_engine.core.engine.pipeline import SearchPipeline
from context_engine.core.engine.recall import SourceReply
from context_engine.core.engine.reranking import TimedReranker, rerank_step
from context_engine.core.engine.search_plan import (
    ClockReading,
    FixedAnswers,
    SearchPlan,
    SourceOutcome,
    SystemClock,
    TimeSortedIds,
    prepared_query,
)
from context_engine.core.engine.source_calls import source_outcome
from context_engine.core.engine.stage2 import pool_of
from context_engine.core.models import (
    AccessRecord,
    BlendFeature,
    Chunk,
    EffectiveSettings,
    Key,
    Notice,
    NoticeCode,
    SearchRequest,
    SearchResult,
    SourceSpec,
    about,
    canonical_json,
)
from context_engine.core.policy.masking import as_kept
from context_engine.core.protocols import Clock, IdSource, Mask, Recorder, Reranker
from context_engine.core.ranking.candidates import AnalysedText
from context_engine.core.ranking.dedup import Deduplicate, deduplicate
from context_engine.core.ranking.learnt_blend import BlendPool, contributions, features, why_not
from context_engine.errors import InvalidRequest, RerankerError

_PLAN_NOTICES: Final = (NoticeCode.MANIFEST_UNUSABLE, NoticeCode.SOURCES_NOT_SEARCHED, NoticeCode.FROM_CACHE)


def recompute(
    result: SearchResult,
    analyse: Callable[[str], AnalysedText] = AnalysedText,
    match: Deduplicate = deduplicate,
) -> SearchResult:
    """Compute stage 2 again from a result's raw answers, clock reading, settings and reranker scores.

    All fields equal those of the result, except that the `elapsed_ms` of its `stages` are 0; the statuses of the
    sources, with their times, are copied. `stage_two_bytes` is the same for both.

    Args:
        analyse: analyses a text; pass a cache to compute one result many times.

    Raises:
        InvalidRequest: the result does not hold its request.
    """
    answers = FixedAnswers(_recorded_outcomes(result))
    reranking = _recorded_reranking(result)
    return SearchPipeline(answers, reranking, analyse=analyse, match=match).run(_recorded_plan(result))


def recorded_pool(result: SearchResult) -> BlendPool:
    """Return the features of a result's candidates that a learnt blend reads or is trained on."""
    inputs = StageTwoInput(_recorded_plan(result), result.raw)
    return pool_of(inputs, _recorded_reranking(result))


def blend_terms(result: SearchResult) -> Mapping[Key, Mapping[BlendFeature, float]]:
    """Return the contribution of each term of the learnt blend to each candidate; empty if no blend was used."""
    blend = result.settings.values.learnt_blend
    if blend is None or result.request is None:
        return {}
    pool = recorded_pool(result)
    if len(pool.keys) < 2 or why_not(blend, pool) is not None:
        return {}
    return dict(zip(pool.keys, contributions(blend, features(pool)), strict=True))


def stage_two_bytes(result: SearchResult) -> bytes:
    """Return everything that stage 2 decides as canonical JSON: the published form without times."""
    published = result.to_dict()
    for name in ("stages", "sources"):
        published[name] = [{**entry, "elapsed_ms": 0} for entry in published[name]]
    return canonical_json(published).encode("utf-8", "surrogatepass")


def with_settings(result: SearchResult, **values: Any) -> SearchResult:
    """Return a result with other settings, for `recompute`; the values are not validated."""
    changed = result.settings.values.model_copy(update=values)
    return replace(result, settings=result.settings.model_copy(update={"values": changed}))


@dataclass(frozen=True, slots=True)
class _RecordedReranking:
    """The reranker's scores of a result, or its failure."""

    reranked: Reranked
    failure: str | None

    def __call__(self, query: str, candidates: Sequence[tuple[Key, Chunk]]) -> Reranked:
        if self.failure is not None:
            raise RerankerError(self.failure)
        return self.reranked


def _recorded_reranking(result: SearchResult) -> _RecordedReranking | None:
    """Return a reranker that gives the recorded scores or failure; None if there are neither."""
    failures = [notice.detail["problem"] for notice in result.notices if notice.code is NoticeCode.RERANK_FAILED]
    if not (failures or result.rerank_scores):
        return None
    reranked = Reranked(result.rerank_scores, result.rerank_adapter)
    return _RecordedReranking(reranked, next(iter(failures), None))


def _recorded_plan(result: SearchResult) -> SearchPlan:
    if result.request is None:
        raise InvalidRequest("this result does not hold its request: it cannot be computed again")
    return SearchPlan(
        request=result.request,
        specs=result.specs,
        effective=result.settings,
        prepared=result.prepared,
        clock=ClockReading(result.now, result.as_of, result.today),
        search_id=result.search_id,
        notices=tuple(notice for notice in result.notices if notice.code in _PLAN_NOTICES),
    )


def _recorded_outcomes(result: SearchResult) -> list[SourceOutcome]:
    answers = {answer.source_id: answer for answer in result.raw}
    return [SourceOutcome(status, answers.get(status.source_id)) for status in result.sources]


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
        request: its query is prepared without a glossary, since the chunks belong to no domain. Its filters, day and
            requirements apply.
        spec: the source to which the chunks are attributed; with `trust_document_metadata` their own claims count.
        notices: about the chunks; added to the result.
        mask: masks personal data before a reranker reads it, if the settings require it.

    Raises:
        ConfigError: the settings require a mask for the reranker, and there is none.
        AuditUnavailable: the result could not be recorded and is therefore not given.
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
    """Return the outcome of a source that answered with these chunks."""
    all_notices = list(notices)
    valid = tuple(valid_chunk(chunk, all_notices) for chunk in chunks)
    answer = ValidatedAnswer(valid, cut=0, rejected=0, notices=about(spec.id, all_notices))
    return source_outcome(spec, SourceReply(answer, None, 0.0, retrieved_at=now, requested_top_k=len(valid)))
