"""The result: what the sources did, what stage 2 made of it, and what may be concluded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.core.engine.decision import MissingEvidence, conclude
from context_engine.core.engine.retriever import Recalled
from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.engine.stage_two_output import StageTwoOutput
from context_engine.core.models import Decision, SearchResult, SourceStatus, StageTrace

__all__ = ["assemble"]

_KEYWORDS_ALONE: Final = (
    "only sources that are searched by a few keywords of each chunk were asked: that nothing was found does not say "
    "that nothing is there"
)


def assemble(plan: SearchPlan, recalled: Recalled, output: StageTwoOutput) -> SearchResult:
    """Return the result of a search: status and decision from what the sources did and stage 2 found."""
    request, statuses = plan.request, recalled.statuses
    conclusion = conclude(request, recalled, output)
    warnings = _warnings(statuses, output, conclusion.missing)
    if conclusion.by_keywords and conclusion.decision is Decision.NO_MATCH:
        warnings += (_KEYWORDS_ALONE,)
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
        warnings=(*(plan.prepared.notes if plan.prepared else ()), *warnings),
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
    )


def _recall_trace(recalled: Recalled, candidates: int) -> StageTrace:
    received = sum(status.chunks + status.cut + status.rejected for status in recalled.statuses)
    return StageTrace("recall", received, candidates, recalled.elapsed_ms)


def _warnings(statuses: Sequence[SourceStatus], output: StageTwoOutput, missing: MissingEvidence) -> tuple[str, ...]:
    found = [f"source {status.source_id!r}: {note}" for status in statuses for note in status.notes]
    found += output.warnings
    found += [f"required tier {tier} gave nothing that is returned" for tier in missing.tiers]
    found += [f"required source {source!r} gave nothing that is returned" for source in missing.sources]
    return tuple(dict.fromkeys(found))
