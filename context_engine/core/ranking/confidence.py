"""How sure a reader may be that a text is about the question: a word for the absolute signal."""

from __future__ import annotations

from typing import Final

from context_engine.core.models import Confidence

__all__ = ["confidence_of"]

_STRONG: Final = 0.6
_WEAK_BELOW: Final = 1.25


def confidence_of(absolute: float, threshold: float) -> Confidence:
    """Return strong, fair or weak, which mean the same for every question.

    Args:
        absolute: [0, 1], the signal that does not depend on what else was found.
        threshold: [0, 1], the scope threshold in force: below 1.25 times of it a text is a weak one.

    >>> [str(confidence_of(absolute, 0.3)) for absolute in (0.7, 0.4, 0.35)]
    ['strong', 'fair', 'weak']
    """
    if absolute < _WEAK_BELOW * threshold:
        return Confidence.WEAK
    return Confidence.STRONG if absolute >= _STRONG else Confidence.FAIR
