"""The scope threshold in force: what the settings say, or what the bases that answered were calibrated to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from context_engine.core.models import RankingSettings, ScopeCalibration, ScopeThreshold

SIGNAL_VERSION: Final = "1"
"""Raised with every change of the absolute relevance: a calibration of another version is not used."""

AUTO: Final = "auto"
CALIBRATED: Final = "calibrated"
MEASURED_DEFAULT: Final = "measured default"

DEFAULT_SCOPE_THRESHOLD: Final = 0.25
"""For sources that say nothing of their collection (Dify, functions), measured with the 40 candidates of a question
alone, questions in scope kept / off-topic ones turned away: regulation 99.2 / 76 %, abstracts 100 / 88 %, FAQ 98.5 /
90 % by words; 100 / 89, 100 / 96 and 99.5 / 95 % with a cosine. At 0.20 words keep 99.5 % or more and turn away 58 to
79 %, at 0.30 they keep 94.5 % or more and turn away 86 to 95 %. Of 100 to 150 chunks words keep 94 to 96 % and turn
away 95 to 98 % at 0.25."""
_DEFAULT_STRONG: Final = 0.6


def scope_threshold(settings: RankingSettings, calibrations: Iterable[ScopeCalibration | None]) -> ScopeThreshold:
    """Return the scope threshold of a search.

    A number is taken as it is; null is `min_relevance_score`. With `auto` it is the lowest of the calibrations; a
    source without one counts with the measured default: a good question that is refused is worse than an off-topic
    one that is answered. What is weak and what is strong evidence is a matter of the calibrations alone, whatever
    number is set: the lowest third between threshold and strong evidence is weak.

    Args:
        settings: of the search.
        calibrations: one for each source that answered, None where it has none.

    >>> base = ScopeCalibration(threshold=0.3, strong=0.6, signal="1")
    >>> scope_threshold(RankingSettings(), [base])
    ScopeThreshold(value=0.3, origin='calibrated', weak_below=0.4, strong_from=0.6)
    >>> scope_threshold(RankingSettings(), [base, None])[:2]
    (0.25, 'measured default')
    >>> scope_threshold(RankingSettings(scope_threshold=0.1), [base])
    ScopeThreshold(value=0.1, origin='', weak_below=0.4, strong_from=0.6)
    """
    found = list(calibrations)
    known = [one for one in found if one is not None]
    lowest = min((one.threshold for one in known), default=DEFAULT_SCOPE_THRESHOLD)
    origin = CALIBRATED if known else MEASURED_DEFAULT
    if len(known) < len(found) and lowest > DEFAULT_SCOPE_THRESHOLD:
        lowest, origin = DEFAULT_SCOPE_THRESHOLD, MEASURED_DEFAULT
    strong = max((one.strong for one in known), default=_DEFAULT_STRONG)
    weak = round(lowest + (strong - lowest) / 3.0, 3)
    setting = settings.scope_threshold
    if setting == AUTO:
        return ScopeThreshold(lowest, origin, weak, strong)
    value = settings.min_relevance_score if setting is None else float(setting)
    return ScopeThreshold(value, "", weak, strong)
