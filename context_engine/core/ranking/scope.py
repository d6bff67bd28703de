"""The scope threshold: how it is set, calibrated from a base's own questions, and turned into words of confidence."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import floor, fsum
from typing import Final, NamedTuple

from context_engine.core.models import Confidence, RankingSettings, ScopeCalibration, ScopeThreshold

SIGNAL_VERSION: Final = "1"
"""Raised with every change of the absolute relevance: a calibration of another version is not used."""

AUTO: Final = "auto"

CALIBRATED: Final = "calibrated"

MEASURED_DEFAULT: Final = "measured default"

DEFAULT_SCOPE_THRESHOLD: Final = 0.25
"""For sources that say nothing of their collection (Dify, functions), measured with the 40 candidates of a question
alone, questions in scope kept / off-topic ones turned away: regulation 99.2 / 76 %, abstracts 100 / 88 %, FAQ 98.5 /
90 % by words; 100 / 89, 100 / 96 and 99.5 / 95 % with a cosine. At 0.20 words keep 99.5 % or more and turn away 58 to
79 %, at 0.30 they keep 94.5 % or more and turn away 86 to 95 %. Of 100 to 150 chunks words keep 94 to 96 % and turn
away 95 to 98 % at 0.25."""

_DEFAULT_STRONG: Final = 0.6


def scope_threshold(settings: RankingSettings, calibrations: Iterable[ScopeCalibration | None]) -> ScopeThreshold:
    """Return the scope threshold of a search.

    A number is taken as it is; null is `min_relevance_score`. With `auto` it is the lowest of the calibrations; a
    source without one counts with the measured default: a good question that is refused is worse than an off-topic
    one that is answered. What is weak and what is strong evidence is a matter of the calibrations alone, whatever
    number is set: the lowest third between threshold and strong evidence is weak.

    Args:
        settings: of the search.
        calibrations: one for each source that answered, None where it has none.

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


class CalibrationSignals(NamedTuple):
    """The best absolute relevance of each question.

    Attributes:
        own: sentences of the base, each without the chunk that it stands in: what the rest of the base says of it.
        answered: questions that the base is known to answer: its headings, and those that were judged.
        outside: off-topic questions.
    """

    own: Sequence[float]
    answered: Sequence[float]
    outside: Sequence[float]


def calibrated(signals: CalibrationSignals, *, by_vectors: bool) -> tuple[float, float]:
    """Return the scope threshold, and the signal from which a text is strong evidence.

    Nine of ten of the base's own sentences have a signal above q even without the chunk they stand in. A real question
    has its answer in the base, but words it differently: s = 2/3 q is what it keeps by words alone, 0.9 q with vectors,
    which see through other words. With o, below which 95 of 100 off-topic questions lie:

        threshold = s             where s <= o: the two overlap, and a good question is not given up for a bad one
                    (s + o) / 2   else: the middle of the gap, as far from the ones as from the others

    and never more than 98 of 100 questions reach that the base is known to answer. Strong is the median of the own
    sentences. The two factors were measured on regulation, abstracts and short answers of a forum, whole and in samples
    of 100 and 1,000 chunks, with real questions that took no part: see tests/benchmarks/bench_calibration.py.

    Args:
        signals: at least one own sentence and one off-topic question.
        by_vectors: the signal is of text and vectors.

    >>> calibrated(CalibrationSignals(own=[0.5] * 10, answered=[], outside=[0.1] * 10), by_vectors=False)
    (0.216, 0.5)
    >>> calibrated(CalibrationSignals(own=[0.5] * 10, answered=[], outside=[0.4] * 10), by_vectors=False)
    (0.333, 0.5)
    """
    own = (_BY_VECTORS if by_vectors else _BY_WORDS) * quantile(signals.own, _OWN_BELOW)
    outside = quantile(signals.outside, _OUTSIDE_BELOW)
    threshold = own if own <= outside else (own + outside) / 2.0
    if answered := sorted(signals.answered):
        threshold = min(threshold, answered[int(_ANSWERED_BELOW * len(answered))])
    threshold = _floored(threshold)
    # The median is never below the threshold, which is at most the share of a lower quantile.
    return threshold, _floored(quantile(signals.own, _STRONG_ABOVE))


def mean_calibration(calibrations: Sequence[ScopeCalibration]) -> ScopeCalibration | None:
    """Return the calibration of several partitions of a base together, None of none; a single one as it is.

    With n the chunks that the domain's sources have in each partition:

        threshold = sum(n * threshold) / sum(n)        strong = sum(n * strong) / sum(n)

    each rounded down to three decimals. What was asked and held is counted over all.

    Args:
        found: of one domain, signal and embedder.

    >>> parts = [ScopeCalibration(threshold=t, strong=0.6, signal="1", chunks=n) for t, n in ((0.2, 300), (0.4, 100))]
    >>> mean_calibration(parts).threshold
    0.25
    """
    if len(calibrations) < 2:
        return calibrations[0] if calibrations else None

    def mean(values: Sequence[float]) -> float:
        weighted = fsum(calibration.chunks * value for calibration, value in zip(calibrations, values, strict=True))
        return _floored(weighted / sum(calibration.chunks for calibration in calibrations))

    return replace(
        calibrations[0],
        threshold=mean([calibration.threshold for calibration in calibrations]),
        strong=mean([calibration.strong for calibration in calibrations]),
        **{
            name: sum(getattr(calibration, name) for calibration in calibrations)
            for name in ("own", "judged", "outside", "chunks")
        },
    )


def _floored(value: float) -> float:
    """Return three decimals of a value, never more than it is: who has just that signal is in scope."""
    return floor(value * 1000.0 + 1e-9) / 1000.0


def quantile(values: Sequence[float], share: float) -> float:
    """Return the value below which a share of the values lies, between two of them in proportion.

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

    Strong is what says as much of the question as the base says of half of its own sentences, without the chunk that
    they stand in; weak what lies in the lowest third between the scope threshold and that, or below. Without a
    calibration both are measured defaults.

    Args:
        absolute: [0, 1], the signal that does not depend on what else was found.
        scope: the scope threshold of the search, with the limits of weak and strong.

    >>> scope = ScopeThreshold(value=0.3, origin="calibrated", weak_below=0.4, strong_from=0.6)
    >>> [str(confidence_of(absolute, scope)) for absolute in (0.6, 0.4, 0.39)]
    ['strong', 'fair', 'weak']
    """
    if absolute < scope.weak_below:
        return Confidence.WEAK
    return Confidence.STRONG if absolute >= scope.strong_from else Confidence.FAIR
