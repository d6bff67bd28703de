"""The scope threshold in force: what the settings say, or what the bases that answered were calibrated to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from context_engine.core.models import RankingSettings, ScopeCalibration, ScopeThreshold

__all__ = ["AUTO", "CALIBRATED", "DEFAULT_SCOPE_THRESHOLD", "MEASURED_DEFAULT", "SIGNAL_VERSION", "scope_threshold"]

SIGNAL_VERSION: Final = "1"
"""Raised with every change of the absolute relevance: a calibration of another version is not used."""

AUTO: Final = "auto"
CALIBRATED: Final = "calibrated"
MEASURED_DEFAULT: Final = "measured default"

DEFAULT_SCOPE_THRESHOLD: Final = 0.25
DEFAULT_STRONG: Final = 0.6


def scope_threshold(settings: RankingSettings, calibrations: Iterable[ScopeCalibration | None]) -> ScopeThreshold:
    """Return the scope threshold of a search.

    A number is taken as it is; null is `min_relevance_score`. With `auto` it is the lowest of the calibrations; a
    source without one counts with the measured default: a good question that is refused is worse than an off-topic
    one that is answered.

    Args:
        settings: of the search.
        calibrations: one for each source that answered, None where it has none.

    >>> scope_threshold(RankingSettings(scope_threshold=0.4), []).value
    0.4
    >>> base = ScopeCalibration(threshold=0.31, strong=0.7, signal="1")
    >>> scope_threshold(RankingSettings(), [base])
    ScopeThreshold(value=0.31, strong=0.7, origin='calibrated')
    >>> scope_threshold(RankingSettings(), [base, None])
    ScopeThreshold(value=0.25, strong=0.7, origin='measured default')
    """
    found = list(calibrations)
    known = [one for one in found if one is not None]
    strong = max((one.strong for one in known), default=DEFAULT_STRONG)
    if settings.scope_threshold != AUTO:
        given = settings.scope_threshold
        value = settings.min_relevance_score if given is None else float(given)
        return ScopeThreshold(value, max(strong, value))
    lowest = min((one.threshold for one in known), default=DEFAULT_SCOPE_THRESHOLD)
    if len(known) < max(len(found), 1) and lowest >= DEFAULT_SCOPE_THRESHOLD:
        return ScopeThreshold(DEFAULT_SCOPE_THRESHOLD, strong, MEASURED_DEFAULT)
    return ScopeThreshold(lowest, strong, CALIBRATED)
