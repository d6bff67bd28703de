"""Evidence is joint / 3 + cosine; the threshold is 0.8 or 1.3 times the root of two quantiles."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from math import sqrt

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import RawAnswer, ScopeCalibration, TermStatistics
from context_engine.core.ranking.scope import (
    SIGNAL_VERSION,
    CalibrationSignals,
    evidence,
    mean_calibration,
    near_miss_limit,
    near_miss_threshold,
)

SIGNALS = st.lists(st.floats(0.0, 4.0), min_size=1, max_size=30)


def calibration(near_miss: float | None, chunks: int = 100) -> ScopeCalibration:
    return ScopeCalibration(threshold=0.2, strong=0.5, signal=SIGNAL_VERSION, near_miss=near_miss, chunks=chunks)


def answer(known: ScopeCalibration | None) -> RawAnswer:
    return RawAnswer(
        source_id="sop",
        chunks=(),
        retrieved_at=datetime(2026, 1, 1, tzinfo=UTC),
        statistics=TermStatistics(collection="base", chunks=9),
        calibration=known,
    )


@pytest.mark.parametrize(
    ("joint", "cosine", "expected"),
    [(1.2, None, 1.2 / 3), (1.2, 0.5, 1.2 / 3 + 0.5), (1.2, -0.5, 1.2 / 3), (0.0, 0.4, 0.4), (0.0, None, 0.0)],
)
def test_words_and_meaning_add_up(joint: float, cosine: float | None, expected: float) -> None:
    assert evidence(joint, cosine) == pytest.approx(expected)


@pytest.mark.parametrize(("by_vectors", "factor"), [(False, 0.8), (True, 1.3)])
def test_the_threshold_lies_between_own_sentences_and_off_topic_questions(by_vectors: bool, factor: float) -> None:
    """The lowest tenth of 0.0 to 1.0 is 0.1; 95 of 100 off-topic questions lie below 0.38."""
    own = [number / 10 for number in range(11)]
    outside = [0.0, 0.4]
    signals = CalibrationSignals(own=own, answered=[], outside=outside)
    expected = factor * sqrt(0.1 * 0.95 * 0.4)
    assert near_miss_threshold(signals, by_vectors=by_vectors) == pytest.approx(expected, abs=0.001)


def test_it_is_lowered_until_answered_questions_reach_it() -> None:
    signals = CalibrationSignals(own=[1.0], answered=[0.9, 0.25], outside=[1.0])
    assert near_miss_threshold(signals, by_vectors=False) == 0.25


@given(own=SIGNALS, answered=SIGNALS, outside=SIGNALS, by_vectors=st.booleans())
def test_most_answered_questions_reach_it(
    own: list[float], answered: list[float], outside: list[float], by_vectors: bool
) -> None:
    threshold = near_miss_threshold(CalibrationSignals(own, answered, outside), by_vectors=by_vectors)
    assert sum(signal < threshold for signal in answered) <= 0.02 * len(answered)


@pytest.mark.parametrize(
    ("near_misses", "expected"),
    [([0.4], 0.4), ([0.4, 0.3], 0.3), ([0.4, None], None), ([None], None), ([], None)],
)
def test_a_search_is_tested_by_its_lowest_calibration(near_misses: list[float | None], expected: float | None) -> None:
    assert near_miss_limit([answer(calibration(near_miss)) for near_miss in near_misses]) == expected


def test_a_source_without_a_calibration_may_have_the_answer() -> None:
    assert near_miss_limit([answer(calibration(0.4)), answer(None)]) is None


def test_evidence_without_statistics_is_on_another_scale() -> None:
    assert near_miss_limit([replace(answer(calibration(0.4)), statistics=None)]) is None


def test_partitions_have_their_mean_by_chunks() -> None:
    parts = [calibration(0.2, chunks=300), calibration(0.4, chunks=100)]
    mean = mean_calibration(parts)
    assert mean is not None and mean.near_miss == 0.25  # (300 * .2 + 100 * .4) / 400


def test_a_partition_without_the_value_leaves_it_unknown() -> None:
    mean = mean_calibration([calibration(0.2), calibration(None)])
    assert mean is not None and mean.near_miss is None
