"""The scope threshold of a domain, for a person: what it was calibrated to, and what it was made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from context_engine.apps.cli.console import note
from context_engine.apps.cli.words import counted
from context_engine.core.models import ScopeCalibration
from context_engine.core.ranking.scope import SIGNAL_VERSION

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.calibrate import JudgedQuestion
    from context_engine.wiring import DomainCalibration, Setup


JUDGEMENTS: Final = "judgements.jsonl"
"""In the configuration folder: what `eval judge` wrote of the domains' own questions."""
_MOST_JUDGED: Final = 200


def calibration_text(found: ScopeCalibration) -> str:
    """Return a threshold with what it holds for and what it was made from, as one line."""
    made = [f"{found.own} sentences and headings", f"{found.outside} off-topic questions"]
    made += [counted(found.judged, "judged question")] if found.judged else []
    by = f"text and vectors of {found.model_id}" if found.model_id else "text"
    old = "" if found.signal == SIGNAL_VERSION else "; of an earlier version, not used: run 'kb calibrate'"
    return f"{found.threshold:.2f} by {by}, from {', '.join(made)}{old}"


def judged_questions(setup: Setup) -> Mapping[str, Sequence[JudgedQuestion]]:
    """Return the questions of each domain that were judged to have an answer, from the configuration's own file.

    Raises:
        ConfigError: the file cannot be read.
    """
    from context_engine.adapters.sources.local.calibrate import JudgedQuestion
    from context_engine.evaluation.gold import holders
    from context_engine.evaluation.qrels import positive, read_qrels
    from context_engine.evaluation.questions import read_questions

    path = setup.config.paths.config_file(JUDGEMENTS)
    if path is None:
        return {}
    found: dict[str, list[JudgedQuestion]] = {}
    answered = positive(read_qrels(path))
    for one in read_questions(path):
        if one.domain is not None and one.id in answered:
            found.setdefault(one.domain, []).append(JudgedQuestion(one.text, holders(answered[one.id])))
    return {domain: texts[-_MOST_JUDGED:] for domain, texts in found.items()}


def print_calibrations(domains: Iterable[DomainCalibration]) -> bool:
    """Say of each domain what it was calibrated to, or why it could not be; return whether all could."""
    good = True
    for one in domains:
        if one.problem is not None:
            good = False
            said = f"the scope threshold of {one.domain} could not be calibrated, a measured default is used"
            note(f"warning: {said}: {one.problem}", style="yellow")
        elif not one.found:
            note(f"scope threshold of {one.domain}: too few sentences to calibrate it, a measured default is used")
        for found in one.found:
            note(f"scope threshold of {one.domain}: {calibration_text(found)}")
    return good
