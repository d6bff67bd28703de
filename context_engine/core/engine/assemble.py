"""The result: what the sources did, what stage 2 made of it, and what may be concluded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.core.engine.decision import MissingEvidence, conclude
from context_engine.core.engine.query_notices import about_query
from context_engine.core.engine.retriever import Recalled
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.engine.stage_two_output import StageTwoOutput
from context_engine.core.models import Decision, Notice, NoticeCode, SearchResult, SourceStatus, StageTrace, distinct

_KEYWORDS_ALONE: Final = (
    "only sources that are searched by a few keywords of each chunk were asked: that nothing was found does not say "
    "that nothing is there"
)


def assemble(plan: SearchPlan, recalled: Recalled, output: StageTwoOutput) -> SearchResult:
    """Return the result of a search: status and decision from what the sources did and stage 2 found."""
    request, statuses = plan.request, recalled.statuses
    conclusion = conclude(request, recalled, output)
    notices = _notices(statuses, output, conclusion.missing)
    notices += tuple(about_query(plan, recalled.answers, output))
    if conclusion.by_keywords and conclusion.decision is Decision.NO_MATCH:
        notices += (Notice(NoticeCode.KEYWORDS_ONLY, "", _KEYWORDS_ALONE),)
    return SearchResult(
        query=request.query,
        domain=request.domain,
        status=conclusion.status,
        decision=conclusion.decision,
        chunks=output.chunks,
        fates=output.fates,
        swaps=output.swaps,
        swap_count=output.swap_count,
        sources=statuses,
        stages=(_recall_trace(recalled, len(output.fates)), *output.stages),
        settings=plan.effective,
        notices=(*(plan.prepared.notices if plan.prepared else ()), *notices, *plan.notices),
        search_id=plan.search_id,
        request_id=request.request_id,
        caller=request.caller,
        now=plan.clock.now,
        as_of=plan.clock.as_of,
        today=plan.clock.today,
        prepared=plan.prepared,
        request=request,
        specs=plan.specs,
        raw=recalled.answers,
        rerank_scores=output.rerank_scores,
        rerank_adapter=output.rerank_adapter,
        scope=output.scope,
    )


def _recall_trace(recalled: Recalled, candidates: int) -> StageTrace:
    received = sum(status.chunks + status.cut + status.rejected for status in recalled.statuses)
    return StageTrace("recall", received, candidates, round(recalled.elapsed_ms, 3))


def _notices(statuses: Sequence[SourceStatus], output: StageTwoOutput, missing: MissingEvidence) -> tuple[Notice, ...]:
    found = [_of_search(status, notice) for status in statuses for notice in status.notices]
    found += output.notices
    for tier in missing.tiers:
        message = f"required tier {tier} gave nothing that is returned"
        found.append(Notice(NoticeCode.REQUIRED_TIER_MISSING, str(tier), message, {"tier": tier}))
    for source in missing.sources:
        message = f"required source {source!r} gave nothing that is returned"
        found.append(Notice(NoticeCode.REQUIRED_SOURCE_MISSING, source, message))
    return distinct(found)


def _of_search(status: SourceStatus, notice: Notice) -> Notice:
    """Return a notice of a source as one of the search: its sentence names the source."""
    message = f"source {status.source_id!r}: {notice.message}"
    return Notice(notice.code, notice.subject, message, notice.detail)
