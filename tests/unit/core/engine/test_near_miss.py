"""A near miss is answered with a notice, and every chunk is weak evidence."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import (
    Chunk,
    Decision,
    Notice,
    NoticeCode,
    ScopeCalibration,
    Score,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    TermStatistics,
)

Make = Callable[..., Any]
Search = Callable[..., SearchResult]
QUESTION = "approval rule stamp"
TEXT = "The approval of each rule needs a stamp."
STATISTICS = TermStatistics(collection="base", chunks=99, document_frequency={"approv": 9, "rule": 9, "stamp": 9})


class Base:
    """A source that answers with a text and a calibration."""

    score_kinds: frozenset[ScoreKind] = frozenset()

    def __init__(self, source_id: str, near_miss: Any, *texts: str, **fields: Any) -> None:
        self.source_id = source_id
        calibration = ScopeCalibration(threshold=0.1, strong=0.2, signal="1", near_miss=near_miss)
        ids = (f"{source_id}-{number}" for number in range(len(texts) or 1))
        chunks = [Chunk(content=text, chunk_id=chunk_id, **fields) for text, chunk_id in zip(texts or [TEXT], ids)]
        self._answer = SourceAnswer(chunks=chunks, calibration=calibration, statistics=STATISTICS)

    def search(self, query: SourceQuery) -> SourceAnswer:
        return self._answer

    def close(self) -> None:
        return None


@pytest.fixture
def search(make_engine: Make) -> Search:
    def run(*bases: Base, **settings: Any) -> SearchResult:
        with make_engine([(tier, base) for tier, base in zip((1, 2, 3), bases)]) as engine:
            return engine.search(SearchRequest(query=QUESTION, domain="NPA", overrides=settings))

    return run


def notices(result: SearchResult) -> list[Notice]:
    return [notice for notice in result.notices if notice.code is NoticeCode.NEAR_MISS]


def evidence(search: Search) -> float:
    """The evidence of the text, as the notice states it."""
    return float(notices(search(Base("t1", 9.0)))[0].detail["evidence"])


def test_the_calibration_of_the_base_decides(search: Search) -> None:
    best = evidence(search)
    assert not notices(search(Base("t1", best)))
    (notice,) = notices(search(Base("t1", best + 0.01)))
    assert notice.detail == {"evidence": best, "threshold": best + 0.01}


def test_it_is_answered_with_weak_evidence(search: Search) -> None:
    plain, marked = search(Base("t1", None)), search(Base("t1", 9.0))
    assert plain.chunks[0].confidence == "strong" and marked.chunks[0].confidence == "weak"
    assert marked.decision is plain.decision is Decision.ANSWERED
    assert [chunk.final for chunk in marked.chunks] == [chunk.final for chunk in plain.chunks]


def test_the_best_passage_decides(search: Search) -> None:
    limit = evidence(search) - 0.1
    assert notices(search(Base("t1", limit, "The approval of stones takes a year.")))
    assert not notices(search(Base("t1", limit, "The approval of stones takes a year.", TEXT)))


def test_a_base_that_was_not_measured_is_not_tested(search: Search) -> None:
    assert not notices(search(Base("t1", None)))
    assert not notices(search(Base("t1", 9.0), Base("t2", None)))


def test_a_source_that_declares_relevance_is_taken_at_its_word(search: Search) -> None:
    declared = Base("t1", 9.0, scores=(Score(ScoreKind.RELEVANCE, 0.9),))
    assert not notices(search(declared))


def test_a_refused_question_is_no_near_miss_too(search: Search) -> None:
    refused = search(Base("t1", 9.0, "A cafeteria opens at noon."))
    assert refused.decision is Decision.OUT_OF_SCOPE and not notices(refused)


def test_every_row_is_analysed_before_a_question_is_a_near_miss(search: Search) -> None:
    """The best evidence is in a chunk that its scores place behind the shortlist."""
    best = evidence(search)
    scored = [
        Chunk(
            content=TEXT if number == 199 else f"The approval of stone {number} takes a year.",
            chunk_id=f"t1-{number}",
            scores=(Score(ScoreKind.BM25, 400.0 - number, "base"),),
        )
        for number in range(200)
    ]
    base = Base("t1", best - 0.2)
    base.score_kinds = frozenset({ScoreKind.BM25})
    base._answer = replace(base._answer, chunks=scored)
    assert not notices(search(base, stage1_top_k=200))


@pytest.mark.parametrize("near_miss", [None, 0.2, 9.0])
def test_a_result_is_recomputed_to_the_same_bytes(search: Search, near_miss: float | None) -> None:
    result = search(Base("t1", near_miss))
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_a_record_of_before_is_recomputed_without_the_test(search: Search) -> None:
    """Its calibration lacks the value."""
    before = search(Base("t1", None))
    assert not notices(recompute(before)) and recompute(before).chunks[0].confidence == "strong"


@pytest.mark.parametrize("near_miss", [-0.1, float("nan"), float("inf"), "0.3", True])
def test_an_unusable_value_counts_as_not_known(search: Search, near_miss: Any) -> None:
    result = search(Base("t1", near_miss))
    assert not notices(result)
    unusable = [notice for notice in result.notices if notice.code is NoticeCode.FIELD_UNUSABLE]
    assert [notice.detail["field"] for notice in unusable] == ["calibration"]


@pytest.mark.wording
def test_the_notice_says_both_numbers(search: Search) -> None:
    (notice,) = notices(search(Base("t1", 9.0)))
    assert "9" in notice.message and f"{notice.detail['evidence']:g}" in notice.message
