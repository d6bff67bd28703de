"""The scope threshold of a search: it comes with the answers of the sources."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.models import (
    Chunk,
    Decision,
    NoticeCode,
    ScopeCalibration,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
)

Make = Callable[..., Any]
QUESTION = "approval rule stamp"
HALF = "The approval of stones takes a year."


class Base:
    """A source that answers with a text and a calibration."""

    score_kinds: frozenset[ScoreKind] = frozenset()

    def __init__(self, source_id: str, threshold: Any, text: str = HALF, **fields: Any) -> None:
        self.source_id = source_id
        calibration = ScopeCalibration(threshold=threshold, strong=0.9, signal="1") if threshold is not None else None
        chunk = Chunk(content=text, chunk_id=f"{source_id}-1", **fields)
        self._answer = SourceAnswer(chunks=[chunk], calibration=calibration)

    def search(self, query: SourceQuery) -> SourceAnswer:
        return self._answer

    def close(self) -> None:
        return None


@pytest.fixture
def search(make_engine: Make) -> Callable[..., SearchResult]:
    def run(*bases: Base, **settings: Any) -> SearchResult:
        sources = [(tier, base) for tier, base in zip((1, 2, 3), bases)]
        with make_engine(sources) as engine:
            return engine.search(SearchRequest(query=QUESTION, domain="NPA", overrides=settings))

    return run


def absolute(search: Callable[..., SearchResult]) -> float:
    return search(Base("t1", None), scope_threshold=0.0, min_relevance_score=0.0).chunks[0].absolute


def test_the_calibration_of_the_base_decides(search: Callable[..., SearchResult]):
    signal = absolute(search)
    assert search(Base("t1", signal - 0.01)).decision is Decision.ANSWERED
    refused = search(Base("t1", signal + 0.01))
    assert refused.decision is Decision.OUT_OF_SCOPE
    assert [(one.stage, one.reason, one.limit) for one in refused.fates] == [("scope", "out_of_scope", signal + 0.01)]


def test_the_result_says_the_number_in_force_and_its_origin(search: Callable[..., SearchResult]):
    shown = search(Base("t1", 0.31)).to_dict()["settings"]["scope_threshold"]
    assert shown == {"value": 0.31, "origin": "calibrated"}
    assert search(Base("t1", None)).settings_in_force()["scope_threshold"]["origin"] == "measured default"
    by_call = search(Base("t1", 0.31), scope_threshold=0.2).settings_in_force()["scope_threshold"]
    assert by_call == {"value": 0.2, "origin": "call"}


def test_of_several_bases_the_lowest_decides(search: Callable[..., SearchResult]):
    signal = absolute(search)
    result = search(Base("t1", signal + 0.05), Base("t2", signal - 0.05, "A cafeteria opens at noon."))
    assert result.decision is Decision.ANSWERED
    assert result.scope is not None and result.scope.value == signal - 0.05


@pytest.mark.parametrize("threshold", [0.01, 0.35, 0.99, None])
def test_a_result_is_recomputed_to_the_same_bytes(search: Callable[..., SearchResult], threshold: float | None):
    result = search(Base("t1", threshold), Base("t2", 0.4, "The rule on approval needs a stamp."))
    assert stage_two_bytes(recompute(result)) == stage_two_bytes(result)


def test_relevance_that_a_source_declares_is_measured_by_min_relevance(ask: Any, chunk_of: Any):
    """It is no signal that a base could have been calibrated on."""
    assert ask([(1, [chunk_of("a", 0.2)])]).decision is Decision.ANSWERED
    assert ask([(1, [chunk_of("a", 0.14)])]).decision is Decision.OUT_OF_SCOPE
    assert ask([(1, [chunk_of("a", 0.2)])], scope_threshold=0.25).decision is Decision.OUT_OF_SCOPE


@pytest.mark.parametrize("threshold", [1.5, -0.1, float("nan"), "0.3", True])
def test_a_calibration_that_cannot_be_one_counts_as_not_known_and_is_said(
    search: Callable[..., SearchResult], threshold: Any
):
    result = search(Base("t1", threshold))
    assert result.scope is not None and result.scope.origin == "measured default"
    unusable = [one for one in result.notices if one.code is NoticeCode.FIELD_UNUSABLE]
    assert [one.detail["field"] for one in unusable] == ["calibration"]


def test_confidence_follows_the_calibration(search: Callable[..., SearchResult]):
    """Weak below .02 + (.9 - .02) / 3."""
    signal = absolute(search)
    result = search(Base("t1", 0.02), min_relevance_score=0.0)
    assert result.chunks[0].confidence == ("weak" if signal < 0.02 + 0.88 / 3 else "fair")
    assert search(Base("t1", 0.02, "The approval rule needs a stamp.")).chunks[0].confidence == "strong"
