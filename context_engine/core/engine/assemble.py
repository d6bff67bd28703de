"""The result of a search: its status, its decision and its notices."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from context_engine.core.engine.candidate_table import StageTwoOutput
from context_engine.core.engine.search_plan import Recalled, SearchPlan
from context_engine.core.models import (
    Decision,
    Notice,
    NoticeCode,
    PreparedQuery,
    RankedChunk,
    RawAnswer,
    SearchRequest,
    SearchResult,
    SourceStatus,
    StageTrace,
    Status,
    distinct,
)
from context_engine.core.policy.filters import ALWAYS_KNOWN, named_fields, own_fields
from context_engine.core.query.spelling import reworded
from context_engine.core.ranking.candidates import AnalysedText, label_of
from context_engine.core.ranking.exact import phrases_held
from context_engine.errors import AllSourcesFailed, EvidenceIncomplete, did_you_mean

_KEYWORDS_ALONE: Final = (
    "only sources that are searched by a few keywords of each chunk were asked: a relevant text may exist although "
    "none was found"
)


def assemble(plan: SearchPlan, recalled: Recalled, output: StageTwoOutput) -> SearchResult:
    """Return the result of a search, with its status, decision and notices."""
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
    notices = [_of_search(status, notice) for status in statuses for notice in status.notices]
    notices += output.notices
    for tier in missing.tiers:
        message = f"required tier {tier} has no chunk in the answer"
        notices.append(Notice(NoticeCode.REQUIRED_TIER_MISSING, str(tier), message, {"tier": tier}))
    for source in missing.sources:
        message = f"required source {source!r} has no chunk in the answer"
        notices.append(Notice(NoticeCode.REQUIRED_SOURCE_MISSING, source, message))
    return distinct(notices)


def _of_search(status: SourceStatus, notice: Notice) -> Notice:
    """Return a source's notice as a notice of the search; its message names the source."""
    message = f"source {status.source_id!r}: {notice.message}"
    return Notice(notice.code, notice.subject, message, notice.detail)


class MissingEvidence(NamedTuple):
    """Required tiers and sources that are not in the answer."""

    tiers: tuple[int, ...]
    sources: tuple[str, ...]


class Conclusion(NamedTuple):
    """The status and the decision of a search.

    Attributes:
        by_keywords: every source that answered was searched only by a few keywords of each chunk.
    """

    status: Status
    decision: Decision
    missing: MissingEvidence
    by_keywords: bool


def conclude(request: SearchRequest, recalled: Recalled, output: StageTwoOutput) -> Conclusion:
    """Return the status and the decision of a search, from the source statuses and the output of stage 2."""
    statuses, answers = recalled.statuses, recalled.answers
    missing = missing_evidence(output.chunks, request.require_tiers, request.require_sources)
    by_keywords = bool(answers) and all(answer.by_keywords for answer in answers)
    decision = decide(
        required_missing=bool(missing.tiers or missing.sources),
        in_scope=output.in_scope,
        returned=len(output.chunks),
        any_lacking=any(map(_lacks, statuses)),
        tested=output.scope_tested,
        by_keywords=by_keywords,
    )
    status = overall_status(statuses, rerank_failed=output.rerank_failed is not None)
    return Conclusion(status, decision, missing, by_keywords)


def _lacks(status: SourceStatus) -> bool:
    """Return whether texts of a source may be missing: it failed, in part too, or its index is behind."""
    return status.state in ("failed", "partial") or any(
        notice.code is NoticeCode.INDEX_LAG for notice in status.notices
    )


def overall_status(sources: Sequence[SourceStatus], *, rerank_failed: bool = False) -> Status:
    """Return failed if no source answered, degraded if a source, a part of it or the reranker failed, else complete."""
    states = [source.state for source in sources]
    if all(state == "failed" for state in states):
        return Status.FAILED
    incomplete = "failed" in states or "partial" in states
    return Status.DEGRADED if incomplete or rerank_failed else Status.COMPLETE


def missing_evidence(
    chunks: Iterable[RankedChunk], require_tiers: Sequence[int], require_sources: Sequence[str]
) -> MissingEvidence:
    """Return the required tiers and sources that neither a returned chunk nor a chunk merged into one comes from."""
    tiers: set[int] = set()
    sources: set[str] = set()
    for chunk in chunks:
        tiers.update([chunk.authority_tier, *(member.authority_tier for member in chunk.also_in)])
        sources.update([chunk.source_id, *(member.source_id for member in chunk.also_in)])
    return MissingEvidence(
        tuple(sorted(set(require_tiers) - tiers)),
        tuple(sorted(set(require_sources) - sources)),
    )


def decide(
    *, required_missing: bool, in_scope: bool, returned: int, any_lacking: bool, tested: int, by_keywords: bool = False
) -> Decision:
    """Return the decision by the first rule that applies.

    1. Required evidence is missing: incomplete.
    2. Texts of a source may be missing, and nothing relevant was found: incomplete, because they might have been
       relevant.
    3. There were candidates and none was relevant enough: out_of_scope; no_match if only keywords were compared,
       because keywords give the name of a text, not its subject.
    4. Something is returned: answered.
    5. Else: no_match.

    Args:
        required_missing: a required tier or source has no chunk in the answer.
        in_scope: the best candidate reached the scope threshold.
        any_lacking: a source failed wholly or in part, or its index is behind its documents.
        tested: number of candidates that were tested against the scope threshold.
        by_keywords: every source that answered was searched only by a few keywords of each chunk.
    """
    if required_missing:
        return Decision.INCOMPLETE
    relevant = returned > 0 and in_scope
    if any_lacking and not relevant:
        return Decision.INCOMPLETE
    if tested and not in_scope:
        return Decision.NO_MATCH if by_keywords else Decision.OUT_OF_SCOPE
    return Decision.ANSWERED if returned else Decision.NO_MATCH


def checked_result(result: SearchResult) -> SearchResult:
    """Return a result that may be given out.

    Raises:
        AllSourcesFailed: no source answered.
        EvidenceIncomplete: `strict` is set and required evidence is missing.
    """
    if result.status is Status.FAILED:
        reasons = "; ".join(map(_reason, result.failed_alike))
        raise AllSourcesFailed(
            f"search {result.search_id}: no source of domain {result.domain!r} answered: {reasons}",
            result=result,
            statuses=result.sources,
        ) from next((status.failure for status in result.sources if status.failure is not None), None)
    if result.decision is Decision.INCOMPLETE and result.request is not None and result.request.strict:
        known = [str(status.error["message"]) for status in result.sources if status.error]
        raise EvidenceIncomplete(
            f"search {result.search_id}: required evidence is missing: " + "; ".join([*result.warnings, *known]),
            result=result,
            statuses=result.sources,
        )
    return result


def _reason(sources: Sequence[SourceStatus]) -> str:
    """Return why some sources failed, all with the same problem."""
    if len(sources) == 1 and sources[0].error is not None:
        return str(sources[0].error["message"])
    return f"sources {', '.join(repr(source.source_id) for source in sources)}: {sources[0].problem}"


_MOST_FIELDS: Final = 40


def about_query(plan: SearchPlan, answers: Sequence[RawAnswer], output: StageTwoOutput) -> Iterator[Notice]:
    """Yield notices about the spelling, quoted phrases, filters and dates."""
    if plan.prepared is not None:
        yield from _about_spelling(plan.prepared)
        yield from _about_phrases(plan.prepared, answers)
    yield from _about_filters(plan, answers, output)
    yield from _about_dates(plan, output)


def _about_spelling(query: PreparedQuery) -> Iterator[Notice]:
    if not query.suggestions:
        return
    words = [{"written": written, "known_as": known} for written, known in query.suggestions]
    if query.corrected:
        message = f'nothing relevant was found for "{query.original}": searched for "{query.text}" instead'
        yield Notice(NoticeCode.QUERY_CORRECTED, "", message, {"searched": query.text, "words": words})
    else:
        suggested = reworded(query.text, query.suggestions)
        message = f'did you mean "{suggested}"?'
        yield Notice(NoticeCode.SPELLING_SUGGESTED, "", message, {"suggested": suggested, "words": words})


def _about_phrases(query: PreparedQuery, answers: Sequence[RawAnswer]) -> Iterator[Notice]:
    if not query.phrases:
        return
    chunks = [chunk for answer in answers for chunk in answer.chunks]
    texts = [AnalysedText(chunk.content) for chunk in chunks]
    phrases = phrases_held(query.phrases, texts, [AnalysedText(label_of(chunk)) for chunk in chunks])
    for phrase in query.phrases:
        if phrase not in phrases:
            message = f'none of the texts found contains the phrase "{phrase}"'
            yield Notice(NoticeCode.PHRASE_NOT_FOUND, "", message, {"phrase": phrase})


def _about_filters(plan: SearchPlan, answers: Sequence[RawAnswer], output: StageTwoOutput) -> Iterator[Notice]:
    if plan.request.filters is None:
        return
    per_source = [fields for answer in answers if (fields := _fields_of(answer))]
    known = frozenset().union(*per_source)
    for name in named_fields(plan.request.filters):
        if known and name not in known | ALWAYS_KNOWN:
            yield _unknown_field(name, sorted(known))
    if not output.scope_tested:
        message = "no candidate passed the filter: check the names of its fields and its values"
        yield Notice(NoticeCode.FILTER_LEFT_NOTHING, "filters", message)


def _unknown_field(name: str, known: Sequence[str]) -> Notice:
    near = did_you_mean(name, sorted({*known, *ALWAYS_KNOWN}))
    listed = ", ".join(known[:_MOST_FIELDS]) + (" …" if len(known) > _MOST_FIELDS else "")
    message = f"no source is known to have the field {name!r} that the filter names.{near} Fields: {listed}"
    detail = {"field": name, "fields": list(known[:_MOST_FIELDS])}
    return Notice(NoticeCode.FILTER_FIELD_UNKNOWN, "filters", message, detail)


def _fields_of(answer: RawAnswer) -> frozenset[str]:
    """Return the fields that a source declares, else those of its chunks."""
    if answer.filter_fields is not None:
        return frozenset(answer.filter_fields)
    return frozenset(name for chunk in answer.chunks for name in own_fields(chunk))


def _about_dates(plan: SearchPlan, output: StageTwoOutput) -> Iterator[Notice]:
    as_of, undated = plan.request.as_of, sum("effective_unknown" in chunk.flags for chunk in output.chunks)
    if as_of is not None and undated:
        message = f"{undated} of the chunks have no dates: whether they were in force on {as_of} is unknown"
        detail = {"count": undated, "as_of": as_of.isoformat()}
        yield Notice(NoticeCode.DATES_UNKNOWN, "as_of", message, detail)
