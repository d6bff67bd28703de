"""Stage 2 again, from a result alone."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

from context_engine.core.engine.pipeline import SearchPipeline
from context_engine.core.engine.retriever import FixedAnswers, SourceOutcome
from context_engine.core.engine.search_plan import ClockReading, SearchPlan
from context_engine.core.engine.stage2 import pool_of
from context_engine.core.engine.stage_two_input import Reranked, StageTwoInput
from context_engine.core.models import BlendFeature, Chunk, Key, NoticeCode, SearchResult, canonical_json
from context_engine.core.ranking.analysed import AnalysedText
from context_engine.core.ranking.dedup import Deduplicate, deduplicate
from context_engine.core.ranking.learnt_blend import BlendPool, contributions, features, why_not
from context_engine.errors import InvalidRequest, RerankerError

_OF_THE_PLAN: Final = (NoticeCode.MANIFEST_UNUSABLE, NoticeCode.SOURCES_NOT_SEARCHED)


def recompute(
    result: SearchResult,
    analyse: Callable[[str], AnalysedText] = AnalysedText,
    match: Deduplicate = deduplicate,
) -> SearchResult:
    """Compute stage 2 from a result's raw answers, clock reading, settings and reranker scores.

    Every field of what comes out equals that of the result, but for the `elapsed_ms` of its `stages`, which are 0; the
    statuses of the sources, their times included, are those recorded. The published form is the same to the byte
    (`stage_two_bytes`).

    Args:
        result: with its request and answers.
        analyse: gives a text its analysis: a cache of them where one result is computed many times, or each anew.
        match: finds the near-duplicates; likewise.

    Raises:
        InvalidRequest: the result does not hold its request.
    """
    answers = FixedAnswers(_recorded_outcomes(result))
    reranking = _recorded_reranking(result)
    return SearchPipeline(answers, reranking, analyse=analyse, match=match).run(_recorded_plan(result))


def recorded_pool(result: SearchResult, analyse: Callable[[str], AnalysedText] = AnalysedText) -> BlendPool:
    """Return what a learnt blend reads of a result's candidates, or could learn from.

    Args: as `recompute`.
    """
    inputs = StageTwoInput(_recorded_plan(result), result.raw)
    return pool_of(inputs, _recorded_reranking(result), analyse)


def blend_terms(result: SearchResult) -> Mapping[Key, Mapping[BlendFeature, float]]:
    """Return what each term of the learnt blend adds to each candidate; empty where none was used."""
    blend = result.settings.values.learnt_blend
    if blend is None or result.request is None:
        return {}
    pool = recorded_pool(result)
    if len(pool.keys) < 2 or why_not(blend, pool) is not None:
        return {}
    return dict(zip(pool.keys, contributions(blend, features(pool)), strict=True))


def stage_two_bytes(result: SearchResult) -> bytes:
    """Return everything stage 2 decides, as canonical JSON: the published form without the times."""
    published = result.to_dict()
    for name in ("stages", "sources"):
        published[name] = [{**one, "elapsed_ms": 0} for one in published[name]]
    return canonical_json(published).encode("utf-8", "surrogatepass")


def with_settings(result: SearchResult, **values: Any) -> SearchResult:
    """Return a result with other settings, to be computed again; whoever calls knows that they are valid."""
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
    """Return the reranker of a result; None where it had none, or one without an opinion."""
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
        notices=tuple(one for one in result.notices if one.code in _OF_THE_PLAN),
    )


def _recorded_outcomes(result: SearchResult) -> list[SourceOutcome]:
    answers = {answer.source_id: answer for answer in result.raw}
    return [SourceOutcome(status, answers.get(status.source_id)) for status in result.sources]
