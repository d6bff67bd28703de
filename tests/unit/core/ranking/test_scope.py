"""The rule: s = 2/3 of the own sentences' lowest tenth by words, 0.9 of it with vectors; o = the off-topic 95 %.

The threshold is .85 of s, or of the middle between s and o.
"""

from __future__ import annotations

from collections.abc import Callable
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
    SearchResult,
    SourceSpec,
    SourceType,
    TermStatistics,
)
from context_engine.core.ranking.candidates import pool
from context_engine.core.ranking.relevance import measure
from context_engine.core.ranking.scope import (
    DEFAULT_SCOPE_THRESHOLD,
    SIGNAL_VERSION,
    CalibrationSignals,
    calibrated,
    confidence_of,
    mean_calibration,
    quantile,
    scope_threshold,
)

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


def threshold(own: list[float], outside: list[float], answered: list[float] | None = None, **options: bool) -> float:
    signals = CalibrationSignals(own=own, answered=answered or [], outside=outside)
    return calibrated(signals, **{"by_vectors": False, **options})[0]


def test_where_both_are_apart_it_is_the_middle_of_the_gap():
    assert threshold([0.6] * 20, [0.2] * 20) == pytest.approx(0.85 * (2 / 3 * 0.6 + 0.2) / 2, abs=0.001)


def test_where_they_overlap_no_own_question_is_given_up_for_an_off_topic_one():
    assert threshold([0.3] * 20, [0.25] * 20) == pytest.approx(0.85 * 2 / 3 * 0.3, abs=0.001)


def test_with_vectors_a_question_in_other_words_keeps_more():
    assert threshold([0.3] * 20, [0.4] * 20, by_vectors=True) == pytest.approx(0.85 * 0.9 * 0.3, abs=0.001)


def test_one_odd_sentence_does_not_open_the_base_to_everything():
    """Of 21 the lowest tenth begins with the third."""
    assert threshold([0.0, *[0.6] * 20], [0.2] * 20) == threshold([0.6] * 20, [0.2] * 20)


def test_one_off_topic_question_that_happens_to_match_does_not_close_it():
    """Of 41 the highest twentieth begins with the third from the top."""
    assert threshold([0.6] * 20, [*[0.2] * 40, 1.0]) == threshold([0.6] * 20, [0.2] * 40)


def test_a_question_that_was_judged_to_have_an_answer_is_not_turned_away():
    assert threshold([0.9] * 20, [0.1] * 20) == pytest.approx(0.85 * 0.35, abs=0.001)
    assert threshold([0.9] * 20, [0.1] * 20, [0.1238, 0.3, 0.8]) == 0.105  # .85 * .1238 = .10523


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
    unknown = mean_calibration([part(0.2, 0.5, 0), part(0.3, 0.7, 0)])  # a store that counts no chunks
    assert unknown is not None and (unknown.threshold, unknown.strong) == (0.25, 0.6)
    assert mean_calibration([]) is None


def test_the_order_of_the_partitions_does_not_matter():
    parts = [part(0.1, 0.3, 7), part(0.7, 0.9, 11), part(0.3, 0.31, 13)]
    means = [mean_calibration(ordered) for ordered in (parts, parts[::-1])]
    assert means[0] == means[1]


@pytest.mark.parametrize(
    ("absolute", "word"),
    [(1.00, "strong"), (0.60, "strong"), (0.59, "fair"), (0.40, "fair"), (0.39, "weak"), (0.30, "weak"), (0.0, "weak")],
)
def test_the_word_follows_from_the_absolute_signal_and_the_calibration(absolute: float, word: str) -> None:
    """Weak is below .3 + (.6 - .3) / 3 = .4."""
    base = ScopeCalibration(threshold=0.3, strong=0.6, signal="1")
    for setting in ("auto", 0.0, 0.55, None):
        assert confidence_of(absolute, scope_threshold(RankingSettings(scope_threshold=setting), [base])) == word


def test_a_perfect_hit_and_a_poor_one_that_rank_alike_are_told_apart(
    ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]
) -> None:
    """Relevance is spread over the pool, so the best of any question has the same final score."""
    perfect, poor = (
        ask(
            [(1, [Chunk(content=text, chunk_id="a"), Chunk(content="The cafeteria opens at noon.", chunk_id="b")])],
            query,
            scope_threshold=0.0,
            min_relevance_score=0.0,
        )
        for query, text in (
            ("approval rule", "The approval rule."),
            ("approval rule for dough in ovens", "The approval of stones takes three days and a stamp."),
        )
    )
    scores: list[tuple[float, str]] = [(one.chunks[0].final, one.chunks[0].confidence) for one in (perfect, poor)]
    assert scores[0][0] == scores[1][0]
    assert scores[0][1] == "strong"
    assert scores[1][1] != "strong"


def test_the_result_says_it_for_each_chunk(ask: Callable[..., SearchResult], chunk_of: Callable[..., Chunk]) -> None:
    result = ask([(2, [chunk_of("a", 0.9, "The approval rule."), chunk_of("b", 0.16, "A note.")])])
    published: list[dict[str, Any]] = result.to_dict()["chunks"]
    assert [(one["chunk_id"], one["confidence"]) for one in published] == [("a", "strong"), ("b", "weak")]
