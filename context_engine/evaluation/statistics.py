"""Intervals for a mean, and for the difference between two set-ups on the same questions."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from context_engine.errors import MissingExtra

SAMPLES: Final = 2000
FEWEST: Final = 6
"""Least differing questions: five in one direction occur by chance in 2 of 32 cases (sign test), six in 2 of 64."""
_SEED: Final = 20_250_630
_CHUNK: Final = 2_000_000


class Interval(NamedTuple):
    """A mean and its 95 % interval."""

    mean: float
    low: float
    high: float


class Paired(NamedTuple):
    """The mean difference of two set-ups over the same questions.

    Attributes:
        low, high: its 95 % interval.
        p: two-sided, the share of resamples on the other side of 0, doubled.
        wins, losses, ties: questions where the first is better, worse, equal.
    """

    mean: float
    low: float
    high: float
    p: float
    wins: int
    losses: int
    ties: int

    @property
    def beyond_noise(self) -> bool:
        """Whether the interval lies on one side of 0, and enough questions differ for it to be meaningful."""
        return self.wins + self.losses >= FEWEST and (self.low > 0.0 or self.high < 0.0)


def _resampled(values: Sequence[float], samples: int, seed: int) -> Any:
    """Return the sorted means of samples drawn with replacement; the same for the same values and seed."""
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtra("evaluation", "eval") from error
    array, random = np.asarray(values, dtype=float), np.random.default_rng(seed)
    rows = max(1, _CHUNK // len(array))
    counts = [min(rows, samples - start) for start in range(0, samples, rows)]
    means = [array[random.integers(0, len(array), (count, len(array)))].mean(axis=1) for count in counts]
    return np.sort(np.concatenate(means))


def bootstrap(values: Sequence[float], *, samples: int = SAMPLES, seed: int = _SEED) -> Interval:
    """Return the mean with its percentile bootstrap interval (Efron 1979); 0 everywhere for no values.

    Raises:
        MissingExtra: the extra `eval` is not installed.
    """
    if not values:
        return Interval(0.0, 0.0, 0.0)
    means = _resampled(values, samples, seed)
    low, high = _ends(means)
    return Interval(sum(values) / len(values), low, high)


def paired_bootstrap(
    ours: Sequence[float], theirs: Sequence[float], *, samples: int = SAMPLES, seed: int = _SEED
) -> Paired:
    """Return the mean difference with its interval: questions are resampled, each with both of its values.

    Args:
        ours, theirs: one value a question, in the same order.

    Raises:
        MissingExtra: the extra `eval` is not installed.
    """
    differences = [our - their for our, their in zip(ours, theirs, strict=True)]
    if not differences:
        return Paired(0.0, 0.0, 0.0, 1.0, 0, 0, 0)
    means = _resampled(differences, samples, seed)
    low, high = _ends(means)
    below, above = float((means <= 0.0).mean()), float((means >= 0.0).mean())
    return Paired(
        mean=sum(differences) / len(differences),
        low=low,
        high=high,
        p=min(1.0, 2.0 * min(below, above)),
        wins=sum(difference > 0.0 for difference in differences),
        losses=sum(difference < 0.0 for difference in differences),
        ties=sum(difference == 0.0 for difference in differences),
    )


def _ends(means: Any) -> tuple[float, float]:
    count = len(means)
    return float(means[int(0.025 * (count - 1))]), float(means[int(0.975 * (count - 1))])


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value that a share of the values does not exceed (nearest rank), 0 if there are none.

    >>> percentile([4.0, 1.0, 3.0, 2.0], 0.5)
    2.0
    """
    if not values:
        return 0.0
    ordered = sorted(values)
    place = max(0, min(len(ordered) - 1, -(-int(share * 1000) * len(ordered) // 1000) - 1))
    return ordered[place]
