from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from context_engine.core.models import (
    Chunk,
    RankingSettings,
    RawAnswer,
    ScopeCalibration,
    ScopeThreshold,
    Score,
    ScoreKind,
    SourceSpec,
    SourceType,
    TermStatistics,
)
from context_engine.core.ranking.candidates import pool
from context_engine.core.ranking.relevance import measure
from context_engine.core.ranking.scope import DEFAULT_SCOPE_THRESHOLD, SIGNAL_VERSION, scope_threshold

LOW = ScopeCalibration(threshold=0.2, strong=0.5, signal=SIGNAL_VERSION)
HIGH = ScopeCalibration(threshold=0.4, strong=0.7, signal=SIGNAL_VERSION)


def in_force(setting: Any, *calibrations: ScopeCalibration | None) -> ScopeThreshold:
    return scope_threshold(RankingSettings(scope_threshold=setting), calibrations)


def test_auto_is_what_the_base_was_calibrated_to():
    assert in_force("auto", HIGH)[:2] == (0.4, "calibrated")


def test_auto_is_the_lowest_of_several_bases():
    assert in_force("auto", HIGH, LOW)[:2] == (0.2, "calibrated")


@pytest.mark.parametrize("calibrations", [(), (None,), (None, None), (HIGH, None)])
def test_a_source_without_a_base_counts_with_the_measured_default(calibrations: Any):
    assert in_force("auto", *calibrations)[:2] == (DEFAULT_SCOPE_THRESHOLD, "measured default")


def test_a_calibration_below_the_measured_default_holds_for_both():
    assert in_force("auto", LOW, None)[:2] == (0.2, "calibrated")


def test_a_number_is_taken_as_it_is_and_null_is_min_relevance():
    assert in_force(0.33, HIGH)[:2] == (0.33, "")
    assert scope_threshold(RankingSettings(scope_threshold=None, min_relevance_score=0.3), [HIGH])[:2] == (0.3, "")


def test_weak_and_strong_are_matters_of_the_calibration_whatever_is_set():
    """Weak is the lowest third between threshold and strong: .4 + (.7 - .4) / 3 = .5."""
    assert {in_force(setting, HIGH)[2:] for setting in ("auto", 0.0, 0.9, None)} == {(0.5, 0.7)}


FROZEN = {"1": (0.807589, 0.640613)}
"""By version: the signal of one text for one question, by words, and with a cosine of a half."""


def test_a_change_of_the_signal_raises_its_version():
    """Calibrations of another signal are not used. Changed on purpose? Raise the version and freeze its numbers."""
    assert (signal(), signal(Score(ScoreKind.COSINE, 0.5, "m"))) == pytest.approx(FROZEN[SIGNAL_VERSION], abs=1e-6)


def signal(*scores: Score) -> float:
    text = "The limit of a foreign payment is set by the treasurer; any breach is reported within a day."
    chunk = Chunk(content=text, chunk_id="a", title="Payments", scores=scores)
    answer = RawAnswer(source_id="sop", chunks=(chunk,), retrieved_at=datetime(2026, 3, 2, tzinfo=UTC))
    candidates, _ = pool([(SourceSpec(id="sop", type=SourceType.BANK_SOP), answer)])
    frequency = {"payment": 90, "limit": 40, "cash": 3, "treasur": 7, "breach": 12}
    known = TermStatistics(collection="base", chunks=1000, document_frequency=frequency)
    return measure("who sets the cash payment limit of a treasurer", candidates, {"sop": known}).absolute[0]
