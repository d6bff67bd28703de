"""The scope threshold of a domain, for a person: what it was calibrated to, and what it was made from."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from context_engine.apps.cli.console import note
from context_engine.apps.cli.words import counted
from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION

if TYPE_CHECKING:
    from context_engine.wiring import DomainCalibration

__all__ = ["calibration_text", "print_calibrations"]


def calibration_text(found: ScopeCalibration) -> str:
    """Return a threshold with what it holds for and what it was made from, as one line."""
    made = [counted(found.own, "passage"), f"{found.outside} off-topic questions"]
    made += [counted(found.judged, "judged question")] if found.judged else []
    by = f"text and vectors of {found.model_id}" if found.model_id else "text"
    old = "" if found.signal == SIGNAL_VERSION else "; of an earlier version, not used: run 'kb calibrate'"
    return f"{found.threshold:.2f} by {by}, from {', '.join(made)}{old}"


def print_calibrations(domains: Iterable[DomainCalibration]) -> bool:
    """Say of each domain what it was calibrated to, or why it could not be; return whether all could."""
    good = True
    for one in domains:
        if one.problem is not None:
            good = False
            said = f"the scope threshold of {one.domain} could not be calibrated, a measured default is used"
            note(f"warning: {said}: {one.problem}", style="yellow")
        for found in one.found:
            note(f"scope threshold of {one.domain}: {calibration_text(found)}")
    return good
