"""Changes that are not settings: the declaration of the chunk's source, the request, the text it was merged into."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, date, timedelta
from functools import partial

from context_engine.audit.review.case import SWITCH, AnswerChangeKind, CandidateIdentity, Case, Change, identity_of
from context_engine.core.engine import with_settings
from context_engine.core.models import (
    TIER_OF,
    And,
    Filter,
    Outcome,
    SearchResult,
    SourceSpec,
    TrustClass,
    default_trust,
    filter_to_dict,
)

_DAY = timedelta(days=1)


def other_changes(case: Case) -> Iterator[Change]:
    """Yield changes of source tier, trust, filter and day, and the removal of the text in the way, in any order.

    Turning the reranker off is a setting. It is here because its recorded scores are removed with it.
    """
    yield from _of_source(case)
    yield from _of_filter(case)
    yield from _of_day(case)
    yield from _of_text(case)
    if case.result.rerank_scores and case.result.settings.values.reranking_enabled:
        yield Change(
            kind=AnswerChangeKind.SETTING,
            name="reranking_enabled",
            was=True,
            now=False,
            steps=SWITCH,
            stage="rerank",
            applied=_without_reranker,
        )


def _without_reranker(result: SearchResult) -> SearchResult:
    return replace(with_settings(result, reranking_enabled=False), rerank_scores={})


def _of_source(case: Case) -> Iterator[Change]:
    spec = case.candidate.spec
    for kind, tier in TIER_OF.items():
        if tier != spec.tier:
            trust = default_trust(tier) if spec.trust is default_trust(spec.tier) else spec.trust
            other = spec.model_copy(update={"type": kind, "tier": tier, "trust_class": trust})
            yield _source_change(other, "tier", spec.tier, tier, SWITCH * abs(tier - spec.tier))
    trust = TrustClass.UNTRUSTED if spec.trust is TrustClass.TRUSTED else TrustClass.TRUSTED
    other = spec.model_copy(update={"trust_class": trust})
    yield _source_change(other, "trust_class", str(spec.trust), str(trust), SWITCH)


def _source_change(other: SourceSpec, name: str, was: int | str, now: int | str, steps: float) -> Change:
    return Change(
        kind=AnswerChangeKind.SOURCE,
        name=f"{other.id}.{name}",
        was=was,
        now=now,
        steps=steps,
        stage="filter",
        applied=partial(_with_source, other=other),
    )


def _with_source(result: SearchResult, other: SourceSpec) -> SearchResult:
    return replace(result, specs=tuple(other if spec.id == other.id else spec for spec in result.specs))


def _of_filter(case: Case) -> Iterator[Change]:
    """Yield the filter removed, and each of its conjuncts removed."""
    asked = case.result.request.filters if case.result.request is not None else None
    if asked is None:
        return
    parts = asked.parts if isinstance(asked, And) else (asked,)
    yield _filter_change(asked, None, SWITCH * max(len(parts), 1))
    if len(parts) > 1:
        for place in range(len(parts)):
            yield _filter_change(asked, And(parts[:place] + parts[place + 1 :]), SWITCH)


def _filter_change(was: Filter, now: Filter | None, steps: float) -> Change:
    return Change(
        kind=AnswerChangeKind.REQUEST,
        name="filters",
        was=filter_to_dict(was),
        now=filter_to_dict(now),
        steps=steps,
        stage="filter",
        applied=partial(_with_filter, filters=now),
    )


def _with_filter(result: SearchResult, filters: Filter | None) -> SearchResult:
    return result if result.request is None else replace(result, request=replace(result.request, filters=filters))


def _of_day(case: Case) -> Iterator[Change]:
    """Yield the nearest day of every span of days with the same chunks in force.

    A span begins on each day on which a chunk starts or ceases to be in force, and today: a superseded chunk counts
    as in force until today.
    """
    result = case.result
    was, today = result.as_of, _today(result)
    dated = (candidate.chunk for candidate in case.candidates.values())
    begins = {day for chunk in dated for day in (chunk.effective_from, chunk.effective_to) if day is not None}
    days = {begin if begin > was else begin - _DAY for begin in begins | {today} if begin > date.min}
    for day in sorted(days - {was}):
        yield Change(
            kind=AnswerChangeKind.REQUEST,
            name="as_of",
            was=was.isoformat(),
            now=day.isoformat(),
            steps=float(abs((day - was).days)),
            stage="as_of",
            applied=partial(_with_day, day=day, today=day >= today),
        )


def _today(result: SearchResult) -> date:
    """Return the day of the search.

    The domain's time zone is not recorded: it is the UTC day, corrected where it would contradict `result.today`.
    """
    day = result.now.astimezone(UTC).date()
    if result.request is not None and result.request.as_of is None:
        return result.as_of
    return min(day, result.as_of) if result.today else max(day, result.as_of + _DAY)


def _with_day(result: SearchResult, day: date, today: bool) -> SearchResult:
    request = None if result.request is None else replace(result.request, as_of=day)
    return replace(result, as_of=day, today=today, request=request)


def _of_text(case: Case) -> Iterator[Change]:
    """Yield the removal of the text that the chunk was merged into, from every source that gave it."""
    into = case.fate.into
    if case.fate.outcome is not Outcome.MERGED or into is None:
        return
    survivor = identity_of(into[0], case.candidates[into].chunk)
    yield Change(
        kind=AnswerChangeKind.TEXT,
        name=f"{into[0]}/{into[1]}",
        was="there",
        now="not there",
        steps=SWITCH,
        stage="filter",
        applied=partial(_without_text, gone=survivor),
    )


def _without_text(result: SearchResult, gone: CandidateIdentity) -> SearchResult:
    trusting = {spec.id for spec in result.specs if spec.trust_document_metadata}
    answers = []
    for answer in result.raw:
        trusts = answer.source_id in trusting
        kept = tuple(
            chunk
            for chunk in answer.chunks
            if identity_of((trusts and chunk.source_id) or answer.source_id, chunk) != gone
        )
        answers.append(replace(answer, chunks=kept))
    return replace(result, raw=tuple(answers))
