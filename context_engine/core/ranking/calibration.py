"""The rule that turns the signals of a base's own questions and of off-topic ones into a scope threshold.

And the one for several partitions of a base, each calibrated by itself: nothing of one enters that of another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor, fsum
from typing import Final, NamedTuple

from context_engine.core.models import ScopeCalibration

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
    return threshold, max(_floored(quantile(signals.own, _STRONG_ABOVE)), threshold)


def mean_calibration(found: Sequence[ScopeCalibration]) -> ScopeCalibration | None:
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
    if len(found) < 2:
        return found[0] if found else None

    def mean(values: Sequence[float]) -> float:
        weighted = fsum(one.chunks * value for one, value in zip(found, values, strict=True))
        return _floored(weighted / sum(one.chunks for one in found))

    return replace(
        found[0],
        threshold=mean([one.threshold for one in found]),
        strong=mean([one.strong for one in found]),
        **{name: sum(getattr(one, name) for one in found) for name in ("own", "judged", "outside", "chunks")},
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
