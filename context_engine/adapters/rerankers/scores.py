"""From what a model gives to a score in [0, 1]."""

from __future__ import annotations

from collections.abc import Sequence
from math import isfinite

from context_engine.core.ranking.logistic import logistic
from context_engine.errors import RerankerError


def unit_scores(name: str, values: Sequence[float]) -> list[float]:
    """Return scores as they are if all lie in [0, 1]; else they are logits, and all go through the logistic function.

    Raises:
        RerankerError: a value that is not finite.
    """
    if not all(isfinite(value) for value in values):
        raise RerankerError(f"{name} gave a score that is not finite")
    if all(0.0 <= value <= 1.0 for value in values):
        return list(values)
    return [logistic(value) for value in values]
