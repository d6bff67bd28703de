"""The rule: s = 2/3 of the own sentences' lowest tenth by words, 0.9 of it with vectors; o = the off-topic 95 %."""

from __future__ import annotations

import pytest

from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.calibration import CalibrationSignals, calibrated, mean_calibration, quantile


def threshold(own: list[float], outside: list[float], answered: list[float] | None = None, **options: bool) -> float:
    signals = CalibrationSignals(own=own, answered=answered or [], outside=outside)
    return calibrated(signals, **{"by_vectors": False, **options})[0]


def test_where_both_are_apart_it_is_the_middle_of_the_gap():
    assert threshold([0.6] * 20, [0.2] * 20) == pytest.approx((2 / 3 * 0.6 + 0.2) / 2, abs=0.001)


def test_where_they_overlap_no_own_question_is_given_up_for_an_off_topic_one():
    assert threshold([0.3] * 20, [0.25] * 20) == pytest.approx(2 / 3 * 0.3, abs=0.001)


def test_with_vectors_a_question_in_other_words_keeps_more():
    assert threshold([0.3] * 20, [0.4] * 20, by_vectors=True) == pytest.approx(0.9 * 0.3, abs=0.001)


def test_one_odd_sentence_does_not_open_the_base_to_everything():
    """Of 21 the lowest tenth begins with the third."""
    assert threshold([0.0, *[0.6] * 20], [0.2] * 20) == threshold([0.6] * 20, [0.2] * 20)


def test_one_off_topic_question_that_happens_to_match_does_not_close_it():
    """Of 41 the highest twentieth begins with the third from the top."""
    assert threshold([0.6] * 20, [*[0.2] * 40, 1.0]) == threshold([0.6] * 20, [0.2] * 40)


def test_a_question_that_was_judged_to_have_an_answer_is_not_turned_away():
    assert threshold([0.9] * 20, [0.1] * 20) == pytest.approx(0.35, abs=0.001)
    assert threshold([0.9] * 20, [0.1] * 20, [0.1238, 0.3, 0.8]) == 0.123


def test_strong_is_the_median_of_the_own_sentences_and_never_below_the_threshold():
    signals = CalibrationSignals(own=[0.3, 0.5, 0.7], answered=[], outside=[0.1])
    assert calibrated(signals, by_vectors=False)[1] == 0.5
    certain = CalibrationSignals(own=[0.4] * 3, answered=[], outside=[0.9])
    low, strong = calibrated(certain, by_vectors=True)
    assert low <= strong == 0.4


def test_the_order_of_the_questions_does_not_matter():
    own, outside = [0.2, 0.9, 0.5, 0.4], [0.3, 0.0, 0.1]
    assert threshold(own, outside) == threshold(own[::-1], outside[::-1])


@pytest.mark.parametrize(("share", "value"), [(0.0, 1.0), (0.5, 2.5), (1.0, 4.0), (0.25, 1.75)])
def test_a_quantile_lies_between_two_values_in_proportion(share: float, value: float):
    assert quantile([4.0, 1.0, 3.0, 2.0], share) == value


def test_a_quantile_of_one_value_is_that_value():
    assert quantile([0.7], 0.1) == 0.7


def part(threshold: float, strong: float, chunks: int) -> ScopeCalibration:
    return ScopeCalibration(
        threshold=threshold, strong=strong, signal="1", model_id="m", own=40, judged=1, outside=50, chunks=chunks
    )


def test_the_calibration_of_several_partitions_is_their_mean_weighted_by_chunks():
    mean = mean_calibration([part(0.2, 0.5, 300), part(0.3, 0.8, 100), part(0.32, 0.56, 200)])
    assert mean is not None
    assert mean.threshold == 0.256  # (300 * .2 + 100 * .3 + 200 * .32) / 600 = .25666 ...
    assert mean.strong == 0.57  # (300 * .5 + 100 * .8 + 200 * .56) / 600 = .57
    assert (mean.signal, mean.model_id, mean.chunks) == ("1", "m", 600)
    assert (mean.own, mean.judged, mean.outside) == (120, 3, 150)


def test_a_single_partition_keeps_its_numbers_and_none_has_none():
    only = part(0.2017, 0.5555, 30)
    assert mean_calibration([only]) is only
    assert mean_calibration([]) is None


def test_the_order_of_the_partitions_does_not_matter():
    parts = [part(0.1, 0.3, 7), part(0.7, 0.9, 11), part(0.3, 0.31, 13)]
    means = [mean_calibration(ordered) for ordered in (parts, parts[::-1])]
    assert means[0] == means[1]
