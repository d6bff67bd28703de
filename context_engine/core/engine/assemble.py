"""The result: what the sources did, what stage 2 made of it, and what may be concluded."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

from context_engine.core.engine.decision import Missing, decide, missing_evidence, overall_status
from context_engine.core.engine.recall import SourceReply
from context_engine.core.engine.stage_two_input import Ranking, StageTwo
from context_engine.core.models import (
    Decision,
    EffectiveSettings,
    Notice,
    NoticeCode,
    PreparedQuery,
    RawAnswer,
    SearchRequest,
    SearchResult,
    SourceSpec,
    SourceStatus,
    StageTrace,
    distinct,
)
from context_engine.errors import SourceError

__all__ = ["assemble", "raw_answers", "source_statuses", "stage_two"]

_KEYWORDS_ALONE: Final = (
    "only sources that are searched by a few keywords of each chunk were asked: that nothing was found does not say "
    "that nothing is there"
)


def source_statuses(specs: Sequence[SourceSpec], replies: Sequence[SourceReply]) -> tuple[SourceStatus, ...]:
    """Return one status per source, in the order of the manifest."""
    return tuple(_status(spec, reply) for spec, reply in zip(specs, replies, strict=True))


def _status(spec: SourceSpec, reply: SourceReply) -> SourceStatus:
    admitted, error = reply.admitted, reply.error
    failures = [error] if error is not None else admitted.failures if admitted is not None else ()
    state = "failed" if admitted is None else "partial" if admitted.failures else "ok" if admitted.chunks else "empty"
    return SourceStatus(
        source_id=spec.id,
        title=spec.title,
        source_type=str(spec.type),
        authority_tier=spec.tier,
        state=state,
        asked=reply.asked,
        chunks=len(admitted.chunks) if admitted else 0,
        cut=admitted.cut if admitted else 0,
        rejected=admitted.rejected if admitted else 0,
        elapsed_ms=round(reply.elapsed_ms, 3),
        error=_published_error(failures),
        problem="; ".join(dict.fromkeys(failure.problem for failure in failures)),
        notices=admitted.notices if admitted else (),
    )


def _published_error(failures: Sequence[SourceError]) -> dict[str, Any] | None:
    """Return the error of a source, or of its parts: the first one's fields, the messages of all."""
    if not failures:
        return None
    return {**failures[0].to_dict(), "message": "; ".join(dict.fromkeys(map(str, failures)))}


def raw_answers(specs: Sequence[SourceSpec], replies: Sequence[SourceReply]) -> list[RawAnswer]:
    """Return the answers of the sources that gave one, as they go into stage 2."""
    return [
        RawAnswer(
            source_id=spec.id,
            chunks=reply.admitted.chunks,
            retrieved_at=reply.retrieved_at,
            by_keywords=reply.admitted.by_keywords,
        )
        for spec, reply in zip(specs, replies, strict=True)
        if reply.admitted is not None
    ]


def stage_two(
    request: SearchRequest,
    settings: EffectiveSettings,
    specs: Sequence[SourceSpec],
    raw: Sequence[RawAnswer],
    *,
    now: datetime,
    as_of: date,
    today: bool,
    search_id: str,
    prepared: PreparedQuery | None = None,
) -> StageTwo:
    """Return the inputs of stage 2."""
    answered = {answer.source_id: answer for answer in raw}
    return StageTwo(
        query=request.query,
        prepared=prepared,
        domain=request.domain,
        answers=[(spec, answered[spec.id]) for spec in specs if spec.id in answered],
        settings=settings.values,
        filters=request.filters,
        as_of=as_of,
        today=today,
        now=now,
        search_id=search_id,
    )


def assemble(
    given: StageTwo,
    ranking: Ranking,
    *,
    request: SearchRequest,
    settings: EffectiveSettings,
    specs: Sequence[SourceSpec],
    statuses: tuple[SourceStatus, ...],
    recall_ms: float,
) -> SearchResult:
    """Return the result of a search: status and decision from what the sources did and stage 2 found."""
    missing = missing_evidence(ranking.chunks, request.require_tiers, request.require_sources)
    by_keywords = bool(given.answers) and all(answer.by_keywords for _, answer in given.answers)
    decision = decide(
        required_missing=bool(missing.tiers or missing.sources),
        in_scope=ranking.in_scope,
        returned=len(ranking.chunks),
        any_failed=any(status.state in ("failed", "partial") for status in statuses),
        found=ranking.weighed,
        by_keywords=by_keywords,
    )
    notices = _notices(statuses, ranking, missing)
    if by_keywords and decision is Decision.NO_MATCH:
        notices += (Notice(NoticeCode.KEYWORDS_ONLY, "", _KEYWORDS_ALONE),)
    recalled = sum(status.chunks + status.cut + status.rejected for status in statuses)
    return SearchResult(
        query=request.query,
        domain=request.domain,
        status=overall_status(statuses, rerank_failed=ranking.rerank_failed is not None),
        decision=decision,
        chunks=ranking.chunks,
        fates=ranking.fates,
        swaps=ranking.swaps,
        swap_count=ranking.swap_count,
        sources=statuses,
        stages=(StageTrace("recall", recalled, len(ranking.fates), recall_ms), *ranking.stages),
        settings=settings,
        notices=(*(given.prepared.notices if given.prepared else ()), *notices),
        search_id=given.search_id,
        request_id=request.request_id,
        caller=request.caller,
        now=given.now,
        as_of=given.as_of,
        today=given.today,
        prepared=given.prepared,
        request=request,
        specs=tuple(specs),
        raw=tuple(answer for _, answer in given.answers),
        rerank_scores=ranking.rerank_scores,
    )


def _notices(statuses: Sequence[SourceStatus], ranking: Ranking, missing: Missing) -> tuple[Notice, ...]:
    found = [_of_source(status, notice) for status in statuses for notice in status.notices]
    found += ranking.notices
    for tier in missing.tiers:
        said = f"required tier {tier} gave nothing that is returned"
        found.append(Notice(NoticeCode.REQUIRED_TIER_MISSING, str(tier), said, {"tier": tier}))
    for source in missing.sources:
        said = f"required source {source!r} gave nothing that is returned"
        found.append(Notice(NoticeCode.REQUIRED_SOURCE_MISSING, source, said))
    return distinct(found)


def _of_source(status: SourceStatus, notice: Notice) -> Notice:
    """Return a notice of a source as one of the search: its sentence names the source."""
    message = f"source {status.source_id!r}: {notice.message}"
    return Notice(notice.code, notice.subject, message, notice.detail)
