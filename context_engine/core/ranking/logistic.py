"""Logits as probabilities."""

from __future__ import annotations

from math import exp
from typing import Final

_MOST: Final = 700.0
"""e^-x is a float up to about here."""


def logistic(value: float) -> float:
    """Return 1 / (1 + e^-value), (0, 1) in theory, [0, 1] in floats.

    >>> logistic(0.0)
    0.5
    """
    return 1.0 / (1.0 + exp(-min(max(value, -_MOST), _MOST)))
