"""One path for every search: only where the answers and the reranker's scores come from differs."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from context_engine.core.engine.candidate_table import Reranked, StageTwoInput
from context_engine.core.engine.pipeline import SearchPipeline
from context_engine.core.engine.search_plan import (
    ClockReading,
    FixedAnswers,
    Recalled,
    RefillRequest,
    SearchPlan,
    SourceOutcome,
)
from context_engine.core.models import (
    Chunk,
    Decision,
    EffectiveSettings,
    RawAnswer,
    Score,
    ScoreKind,
    SearchRequest,
    Settings,
    SourceSpec,
    SourceStatus,
    SourceType,
    Status,
)
from context_engine.errors import RerankerError

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)
SOP = SourceSpec(id="sop", type=SourceType.BANK_SOP)
WEB = SourceSpec(id="web", type=SourceType.GENERAL_WEB)


def plan_of(*specs: SourceSpec, **settings: object) -> SearchPlan:
    return SearchPlan(
        request=SearchRequest(query="approval rule", domain="NPA"),
        specs=specs,
        effective=EffectiveSettings(values=Settings.model_validate({"stage2_top_k": 2, "stage1_top_k": 2, **settings})),
        prepared=None,
        clock=ClockReading.at(NOW, UTC, None),
        search_id="s-1",
    )


def chunks_of(*relevances: float, document: str = "D") -> tuple[Chunk, ...]:
    return tuple(
        Chunk(
            content=f"Approval rule number {place} of {document}.",
            chunk_id=f"{document}{place}",
            document_id=document,
            scores=(Score(ScoreKind.RELEVANCE, relevance),),
        )
        for place, relevance in enumerate(relevances)
    )


def answer_of(source_id: str, chunks: tuple[Chunk, ...] = ()) -> RawAnswer:
    return RawAnswer(source_id=source_id, chunks=chunks, retrieved_at=NOW)


def outcome_of(spec: SourceSpec, chunks: tuple[Chunk, ...] | None, state: str = "ok") -> SourceOutcome:
    status = SourceStatus(
        source_id=spec.id,
        title="",
        source_type=str(spec.type),
        authority_tier=spec.tier,
        state=state,
        chunks=len(chunks or ()),
        error={"message": "source 'web': HTTP 503"} if state == "failed" else None,
    )
    return SourceOutcome(status, None if chunks is None else answer_of(spec.id, chunks))


class Refillable:
    """A retriever with a first and a longer answer; remembers what it was called for."""

    def __init__(self, first: SourceOutcome, longer: SourceOutcome | None) -> None:
        self.first, self.longer = first, longer
        self.requested: list[RefillRequest] = []

    def recall(self, plan: SearchPlan) -> Recalled:
        return Recalled((self.first,), 3.0)

    def recall_more(self, plan: SearchPlan, first: Recalled, refill: RefillRequest) -> Recalled | None:
        self.requested.append(refill)
        return None if self.longer is None else Recalled((self.longer,), first.elapsed_ms + 4.0)


def test_answers_at_hand_are_ranked_without_a_source() -> None:
    result = SearchPipeline(FixedAnswers([outcome_of(SOP, chunks_of(0.9, 0.5))])).run(plan_of(SOP))
    assert [chunk.chunk_id for chunk in result.chunks] == ["D0", "D1"]
    assert (result.status, result.decision) == (Status.COMPLETE, Decision.ANSWERED)
    assert (result.now, result.as_of, result.today, result.search_id) == (NOW, NOW.date(), True, "s-1")
    assert {stage.elapsed_ms for stage in result.stages} == {0.0}


def test_a_source_without_an_answer_degrades_the_result() -> None:
    outcomes = [outcome_of(SOP, chunks_of(0.9)), outcome_of(WEB, None, "failed")]
    result = SearchPipeline(FixedAnswers(outcomes)).run(plan_of(SOP, WEB))
    assert result.status is Status.DEGRADED
    assert [answer.source_id for answer in result.raw] == ["sop"]


def test_an_answer_cut_short_is_refilled_in_a_second_pass() -> None:
    """Two chunks of one document, one allowed: 1 of 2. 5 x 2 = 10 candidates hold another document."""
    first = outcome_of(SOP, chunks_of(0.9, 0.8))
    longer = outcome_of(SOP, (*chunks_of(0.9, 0.8), *chunks_of(0.7, document="E")))
    retriever = Refillable(first, longer)
    result = SearchPipeline(retriever).run(plan_of(SOP, max_per_document=1))
    assert retriever.requested == [((0,), 10)]
    assert [chunk.chunk_id for chunk in result.chunks] == ["D0", "E0"]
    assert result.stages[0] == ("recall", 3, 3, 7.0)


@pytest.mark.parametrize("longer", [None, outcome_of(SOP, chunks_of(0.1))], ids=["no more", "fewer"])
def test_the_first_pass_is_kept_where_the_second_gives_nothing_better(longer: SourceOutcome | None) -> None:
    retriever = Refillable(outcome_of(SOP, chunks_of(0.9, 0.8)), longer)
    result = SearchPipeline(retriever).run(plan_of(SOP, max_per_document=1))
    assert len(retriever.requested) == 1
    assert [chunk.chunk_id for chunk in result.chunks] == ["D0"]


def test_a_full_answer_is_not_refilled() -> None:
    retriever = Refillable(outcome_of(SOP, chunks_of(0.9, 0.8)), None)
    SearchPipeline(retriever).run(plan_of(SOP))
    assert retriever.requested == []


def test_scores_of_a_reranker_are_blended_and_its_failure_leaves_stage_1() -> None:
    """w = .5: D0 has .5 * .9 + .5 * .2 = .55, D1 has .5 * .8 + .5 * 1 = .9."""
    answers = FixedAnswers([outcome_of(SOP, chunks_of(0.9, 0.8))])
    scores = {("sop", "D0"): 0.2, ("sop", "D1"): 1.0}
    result = SearchPipeline(answers, lambda _query, _candidates: Reranked(scores)).run(plan_of(SOP, rerank_weight=0.5))
    assert [(chunk.chunk_id, pytest.approx(chunk.relevance)) for chunk in result.chunks] == [("D1", 0.9), ("D0", 0.55)]

    def failing(_query: str, _candidates: object) -> None:
        raise RerankerError("HTTP 429")

    result = SearchPipeline(answers, failing).run(plan_of(SOP, rerank_weight=0.5))
    assert [chunk.chunk_id for chunk in result.chunks] == ["D0", "D1"]
    assert result.status is Status.DEGRADED


def test_answers_go_with_their_source_in_the_order_of_the_manifest() -> None:
    answers = (answer_of("web"), answer_of("gone"), answer_of("sop"))
    pairs = StageTwoInput(plan_of(SOP, WEB), answers).by_source()
    assert [(spec.id, answer.source_id) for spec, answer in pairs] == [("sop", "sop"), ("web", "web")]
