"""Scope and near misses: the thresholds, how they are calibrated, and what stays under them.

A near miss is a question of the base's own field whose answer the base does not have. Its best passages look right:
they have its words, but not its answer. The absolute signal measures how much of a question a passage covers. Evidence
measures how often the passage has the question's rare words, how many of them stand side by side as in the question,
and how close the passage is in meaning. A question whose best evidence is lower than that of questions that the base
answers is marked, never refused.

Measured on 15 bases of 100 to 13,012 chunks, with 99 % of the answerable questions unmarked. Of questions about other
fields 98 % are marked or refused by words and 100 % with vectors (by the scope threshold alone 93 and 99 %), of
questions whose answer is missing from a base of their own collection 13 and 13 % (8 and 5 %). Most of these stay
unmarked: other passages of the collection tell as much of what they ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from math import floor, fsum, inf, sqrt
from types import MappingProxyType
from typing import Final, NamedTuple

from context_engine.core.models import (
    Confidence,
    ModelSettings,
    RankingSettings,
    RawAnswer,
    ScopeCalibration,
    ScopeThreshold,
    ScoreKind,
)

SIGNAL_VERSION: Final = "1"
"""Raised with every change of the absolute signal: calibrations of other versions are ignored."""

AUTO: Final = "auto"
CALIBRATED: Final = "calibrated"
MEASURED_DEFAULT: Final = "measured default"
DEFAULT_SCOPE_THRESHOLD: Final = 0.25
"""For sources without statistics of their collection (Dify, functions).

Measured with 40 candidates per question, in-scope questions kept / off-topic ones turned away: regulation 99.2 / 76 %,
abstracts 100 / 88 %, FAQ 98.5 / 90 % by words; 100 / 89, 100 / 96 and 99.5 / 95 % with a cosine. By words, 0.20 keeps
at least 99.5 % and turns away 58 to 79 %; 0.30 keeps at least 94.5 % and turns away 86 to 95 %. In bases of 100 to 150
chunks, 0.25 keeps 94 to 96 % and turns away 95 to 98 % by words."""

_DEFAULT_STRONG: Final = 0.6


def scope_threshold(settings: RankingSettings, calibrations: Iterable[ScopeCalibration | None]) -> ScopeThreshold:
    """Return the scope threshold of a search.

    A number is used as given; null means `min_relevance_score`. With `auto` it is the lowest of the calibrations, and a
    source without one counts with the measured default: refusing a good question is worse than answering an off-topic
    one. The limits of weak and strong evidence depend on the calibrations alone, whatever number is set: the lowest
    third between threshold and strong evidence is weak.

    Args:
        calibrations: one for each source that answered; None for a source without one.

    >>> base = ScopeCalibration(threshold=0.3, strong=0.6, signal="1")
    >>> scope_threshold(RankingSettings(), [base])
    ScopeThreshold(value=0.3, origin='calibrated', weak_below=0.4, strong_from=0.6)
    >>> scope_threshold(RankingSettings(), [base, None])[:2]
    (0.25, 'measured default')
    >>> scope_threshold(RankingSettings(scope_threshold=0.1), [base])
    ScopeThreshold(value=0.1, origin='', weak_below=0.4, strong_from=0.6)
    """
    all_calibrations = list(calibrations)
    known = [calibration for calibration in all_calibrations if calibration is not None]
    lowest = min((calibration.threshold for calibration in known), default=DEFAULT_SCOPE_THRESHOLD)
    origin = CALIBRATED if known else MEASURED_DEFAULT
    if len(known) < len(all_calibrations) and lowest > DEFAULT_SCOPE_THRESHOLD:
        lowest, origin = DEFAULT_SCOPE_THRESHOLD, MEASURED_DEFAULT
    strong = max((calibration.strong for calibration in known), default=_DEFAULT_STRONG)
    weak = round(lowest + (strong - lowest) / 3.0, 3)
    setting = settings.scope_threshold
    if setting == AUTO:
        return ScopeThreshold(lowest, origin, weak, strong)
    value = settings.min_relevance_score if setting is None else float(setting)
    return ScopeThreshold(value, "", weak, strong)


_OUTSIDE_BELOW: Final = 0.95
_OWN_BELOW: Final = 0.1
_ANSWERED_BELOW: Final = 0.02
_STRONG_ABOVE: Final = 0.5
_BY_WORDS: Final = 2 / 3
_BY_VECTORS: Final = 0.9
_LENIENT: Final = 0.85


class CalibrationSignals(NamedTuple):
    """The best absolute relevance of each question.

    Attributes:
        own: sentences of the base, each searched without the chunk it is in.
        answered: questions that the base is known to answer: its headings and judged questions.
        outside: off-topic questions.
    """

    own: Sequence[float]
    answered: Sequence[float]
    outside: Sequence[float]


def calibrated(signals: CalibrationSignals, *, by_vectors: bool) -> tuple[float, float]:
    """Return the scope threshold, and the signal from which a text is strong evidence.

    Let q be the signal that nine of ten of the base's own sentences exceed without their own chunk. A real question has
    its answer in the base but is worded differently: by words alone it keeps about s = 2/3 q, with vectors, which see
    through other wordings, s = 0.9 q. Let o be the signal below which 95 of 100 off-topic questions lie:

        limit = s             if s <= o: they overlap, and no good question is given up for a bad one
                (s + o) / 2   otherwise: the middle of the gap

    It is lowered until 98 of 100 questions that the base is known to answer reach it. The threshold is .85 of it,
    because people ask in other words than the texts. Strong is the median of the own sentences.

    The factors of s were measured on regulation, abstracts and short forum answers, whole and in samples of 100 and
    1,000 chunks, with real questions as the test set: see tests/benchmarks/bench_calibration.py. The .85 was measured
    with 582 answerable questions, most in everyday words, to policies, a bank's procedures and regulation. By words 99,
    95 and 98 % are in scope; with a factor of 1, 98, 89 and 91 %. Of off-topic questions 45, 33 and 37 % are in scope,
    instead of 35, 23 and 25 %; 28, 22 and 27 %, instead of 27, 18 and 22 %, without being marked as near misses. With
    vectors, policies alone, 99.8 instead of 98.5 %; off-topic 23 instead of 12 %, and 2 % unmarked both times.

    Args:
        signals: at least one own sentence and one off-topic question.
        by_vectors: whether the signal combines words and vectors.

    >>> calibrated(CalibrationSignals(own=[0.5] * 10, answered=[], outside=[0.1] * 10), by_vectors=False)
    (0.184, 0.5)
    >>> calibrated(CalibrationSignals(own=[0.5] * 10, answered=[], outside=[0.4] * 10), by_vectors=False)
    (0.283, 0.5)
    """
    own = (_BY_VECTORS if by_vectors else _BY_WORDS) * quantile(signals.own, _OWN_BELOW)
    outside = quantile(signals.outside, _OUTSIDE_BELOW)
    limit = own if own <= outside else (own + outside) / 2.0
    threshold = rounded_down(_LENIENT * min(limit, lowest_answered(signals)))
    # The median is never below the threshold, which is at most the share of a lower quantile.
    return threshold, rounded_down(quantile(signals.own, _STRONG_ABOVE))


def lowest_answered(signals: CalibrationSignals) -> float:
    """Return the signal that 98 of 100 questions that the base is known to answer reach; infinity without any."""
    answered = sorted(signals.answered)
    return answered[int(_ANSWERED_BELOW * len(answered))] if answered else inf


def mean_calibration(calibrations: Sequence[ScopeCalibration]) -> ScopeCalibration | None:
    """Return the mean calibration of a base's partitions; a single one unchanged, None for none.

    Each partition is calibrated by itself, so that nothing of one enters another. With n the chunks of the domain's
    sources in each partition:

        threshold = sum(n * threshold) / sum(n)        strong = sum(n * strong) / sum(n)

    each rounded down to three decimals, and likewise for near misses if every partition has that value. If no chunks
    are known, each partition counts alike. The counts of questions and chunks are summed.

    >>> parts = [ScopeCalibration(threshold=t, strong=0.6, signal="1", chunks=n) for t, n in ((0.2, 300), (0.4, 100))]
    >>> mean_calibration(parts).threshold
    0.25
    """
    if len(calibrations) < 2:
        return calibrations[0] if calibrations else None

    weights = [calibration.chunks for calibration in calibrations]
    if not any(weights):
        weights = [1] * len(calibrations)

    def mean(values: Sequence[float]) -> float:
        weighted = fsum(weight * value for weight, value in zip(weights, values, strict=True))
        return rounded_down(weighted / sum(weights))

    near_misses = [calibration.near_miss for calibration in calibrations if calibration.near_miss is not None]
    return replace(
        calibrations[0],
        near_miss=mean(near_misses) if len(near_misses) == len(calibrations) else None,
        threshold=mean([calibration.threshold for calibration in calibrations]),
        strong=mean([calibration.strong for calibration in calibrations]),
        **{
            name: sum(getattr(calibration, name) for calibration in calibrations)
            for name in ("own", "judged", "outside", "chunks")
        },
    )


def rounded_down(value: float) -> float:
    """Round down to three decimals, so that a question with exactly that signal is in scope."""
    return floor(value * 1000.0 + 1e-9) / 1000.0


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, interpolated linearly.

    >>> quantile([0.25, 0.5, 0.75], 0.25)
    0.375
    """
    ordered = sorted(values)
    place = share * (len(ordered) - 1)
    low = int(place)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (place - low) * (ordered[high] - ordered[low])


def confidence_of(absolute: float, scope: ScopeThreshold) -> Confidence:
    """Return strong, fair or weak, which mean the same for every question.

    Strong reaches the signal that half of the base's own sentences reach without their own chunk. Weak lies in the
    lowest third between the scope threshold and strong, or below. Without a calibration both limits are measured
    defaults.

    Args:
        absolute: [0, 1], the signal that does not depend on the other candidates.
        scope: the scope threshold of the search, with the limits of weak and strong.

    >>> scope = ScopeThreshold(value=0.3, origin="calibrated", weak_below=0.4, strong_from=0.6)
    >>> [str(confidence_of(absolute, scope)) for absolute in (0.6, 0.4, 0.39)]
    ['strong', 'fair', 'weak']
    """
    if absolute < scope.weak_below:
        return Confidence.WEAK
    return Confidence.STRONG if absolute >= scope.strong_from else Confidence.FAIR


class Limits(NamedTuple):
    """The limits of one ranking.

    Attributes:
        in_scope: some candidate's absolute signal reached its scope threshold.
        least_absolute: of each row, the least absolute signal with which it stays.
        kept: rows below a limit that stay nevertheless, because of `min_chunks`.
    """

    in_scope: bool = True
    least_absolute: Mapping[int, float] = MappingProxyType({})
    kept: frozenset[int] = frozenset()


def decide_limits(
    absolute: Sequence[float],
    tiers: Sequence[int],
    scopes: Mapping[int, float],
    below: Mapping[int, float],
    settings: RankingSettings,
) -> Limits:
    """Decide scope first, then the least absolute signal, then which rows `min_chunks` keeps below a limit.

    `min_chunks` keeps the relevant rows below similarity_threshold first, by their score of that kind, then other rows
    by their absolute signal.

    Args:
        absolute, tiers: of every row.
        scopes: the scope threshold of each row that is a candidate.
        below: the rows below similarity_threshold, with their score.
    """
    in_scope = any(absolute[row] >= scope for row, scope in scopes.items())
    least_in_scope = settings.min_relevance_score
    least = {row: least_in_scope if in_scope else max(scope, least_in_scope) for row, scope in scopes.items()}
    relevant = [row for row in scopes if absolute[row] >= least[row]]
    wanted = max(settings.min_chunks - sum(row not in below for row in relevant), 0)
    similar = sorted((row for row in relevant if row in below), key=lambda row: (-below[row], tiers[row], row))
    weak = sorted(
        (row for row in scopes if absolute[row] < least[row]), key=lambda row: (-absolute[row], tiers[row], row)
    )
    return Limits(in_scope, least, frozenset([*similar, *weak][:wanted]))


def how_to_get(kind: ScoreKind, settings: ModelSettings) -> str:
    """Return, as a clause for a message, how candidates can get a kind of score that none of them has."""
    if kind in (ScoreKind.COSINE, ScoreKind.WEIGHTED) and settings.embedder is None:
        return (
            f"for {kind} scores set 'embedder' in rag-pipeline.json and ingest the documents again, or search Dify by "
            "semantic_search; else set similarity_kind to a kind that the sources give"
        )
    return "set similarity_kind to a kind that the sources give"


_WORDS_BESIDE_COSINE: Final = 1 / 3
"""Weight of the words beside the cosine, which is at most 1; the best passage of most questions has a `joint` of 1 to
4. 1/6 and 1/2 measured alike or worse."""

_NEAR_MISS_BY_WORDS: Final = 0.8
_NEAR_MISS_BY_VECTORS: Final = 1.3


def evidence(joint: float, cosine: float | None) -> float:
    """Return how much of what is asked a passage tells, [0, inf): joint / 3 + cosine.

    Comparable within one collection and model.

    Args:
        joint: of the passage's words (`lexical_scores`), [0, inf).
        cosine: of question and passage, [-1, 1]; a negative or unknown one counts as 0.

    >>> evidence(1.5, 0.25), evidence(1.5, None)
    (0.75, 0.5)
    """
    return _WORDS_BESIDE_COSINE * joint + max(cosine or 0.0, 0.0)


def near_miss_threshold(signals: CalibrationSignals, *, by_vectors: bool) -> float:
    """Return the best evidence below which a question of a base is a near miss.

    Let q be the evidence that nine of ten of the base's own sentences exceed without their own chunk, and o that below
    which 95 of 100 off-topic questions lie. The threshold is factor * sqrt(q * o), lowered until 98 of 100 questions
    that the base is known to answer reach it. The factor is 0.8 by words and 1.3 with vectors. Measured on samples of
    100 to 13,012 chunks of regulation, abstracts and short forum answers: see tests/benchmarks/bench_near_miss.py.

    Args:
        signals: of evidence; at least one own sentence and one off-topic question.
        by_vectors: whether the evidence combines words and vectors.

    >>> round(near_miss_threshold(CalibrationSignals(own=[0.8], answered=[], outside=[0.2]), by_vectors=False), 3)
    0.32
    """
    own, outside = quantile(signals.own, _OWN_BELOW), quantile(signals.outside, _OUTSIDE_BELOW)
    threshold = (_NEAR_MISS_BY_VECTORS if by_vectors else _NEAR_MISS_BY_WORDS) * sqrt(own * outside)
    return rounded_down(min(threshold, lowest_answered(signals)))


def near_miss_limit(answers: Iterable[RawAnswer]) -> float | None:
    """Return the evidence below which a search is a near miss: the lowest of its sources' calibrations.

    None if a source has no calibration, as it may have the answer, or no statistics of its collection: without them its
    evidence is on another scale.

    Args:
        answers: of the sources that answered.
    """
    limits = [
        None if answer.calibration is None or answer.statistics is None else answer.calibration.near_miss
        for answer in answers
    ]
    known = [limit for limit in limits if limit is not None]
    return min(known) if known and len(known) == len(limits) else None
