"""How sure a reader may be that a text is about the question: a word for the absolute signal."""

from __future__ import annotations

from context_engine.core.models import Confidence, ScopeThreshold


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
