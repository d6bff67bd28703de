"""How sure a reader may be that a text is about the question: a word for the absolute signal."""

from __future__ import annotations

from typing import Final, Literal

__all__ = ["Confidence", "confidence_of"]

Confidence = Literal["strong", "fair", "weak"]

_STRONG: Final = 0.6
_WEAK_BELOW: Final = 1.25


def confidence_of(absolute: float, threshold: float) -> Confidence:
    """Return strong, fair or weak, which mean the same for every question.

    Args:
        absolute: [0, 1], the signal that does not depend on what else was found.
        threshold: [0, 1], the scope threshold in force: below 1.25 times of it a text is a weak one.

    >>> confidence_of(0.7, 0.3), confidence_of(0.4, 0.3), confidence_of(0.35, 0.3)
    ('strong', 'fair', 'weak')
    """
    if absolute < _WEAK_BELOW * threshold:
        return "weak"
    return "strong" if absolute >= _STRONG else "fair"
