"""How sure a reader may be that a text is about the question: a word for the absolute signal."""

from __future__ import annotations

from context_engine.core.models import Confidence, ScopeThreshold

__all__ = ["confidence_of"]


def confidence_of(absolute: float, scope: ScopeThreshold) -> Confidence:
    """Return strong, fair or weak, which mean the same for every question.

    Args:
        absolute: [0, 1], the signal that does not depend on what else was found.
        scope: below its threshold a text is weak evidence, from its other number on strong.

    >>> scope = ScopeThreshold(value=0.3, strong=0.6)
    >>> [str(confidence_of(absolute, scope)) for absolute in (0.7, 0.4, 0.25)]
    ['strong', 'fair', 'weak']
    """
    if absolute < scope.value:
        return Confidence.WEAK
    return Confidence.STRONG if absolute >= scope.strong else Confidence.FAIR
