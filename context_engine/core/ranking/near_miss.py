"""Near misses: questions of the base's own field whose answer the base does not have.

The best passages of a near miss look right: they have its words, but not its answer. The absolute signal measures how
much of a question a passage covers. Evidence measures how often the passage has the question's rare words, how many of
them stand side by side as in the question, and how close the passage is in meaning. A question whose best evidence is
lower than that of questions that the base answers is marked, never refused.

Measured on 15 bases of 100 to 13,012 chunks, with 99 % of the answerable questions unmarked. Of questions about other
fields 98 % are marked or refused by words and 100 % with vectors (by the scope threshold alone 93 and 99 %), of
questions whose answer is missing from a base of their own collection 13 and 13 % (8 and 5 %). Most of these stay
unmarked: other passages of the collection tell as much of what they ask.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import sqrt
from typing import Final

from context_engine.core.models import RawAnswer
from context_engine.core.ranking.scope import CalibrationSignals, lowest_answered, quantile, rounded_down

_WORDS: Final = 1 / 3
"""Weight of the words beside the cosine, which is at most 1; the best passage of most questions has a `joint` of 1 to
4. 1/6 and 1/2 measured alike or worse."""

_OWN_BELOW: Final = 0.1
_OUTSIDE_BELOW: Final = 0.95
_BY_WORDS: Final = 0.8
_BY_VECTORS: Final = 1.3


def evidence(joint: float, cosine: float | None) -> float:
    """Return how much of what is asked a passage tells, [0, inf): joint / 3 + cosine.

    Comparable within one collection and model.

    Args:
        joint: of the passage's words (`lexical_scores`), [0, inf).
        cosine: of question and passage, [-1, 1]; a negative or unknown one counts as 0.

    >>> evidence(1.5, 0.25), evidence(1.5, None)
    (0.75, 0.5)
    """
    return _WORDS * joint + max(cosine or 0.0, 0.0)


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
    threshold = (_BY_VECTORS if by_vectors else _BY_WORDS) * sqrt(own * outside)
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
