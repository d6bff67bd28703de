"""The report of an evaluation: one set-up, or two side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.core.models import messages
from context_engine.evaluation import cost_sections, sections
from context_engine.evaluation.blocks import ReportDocument, ReportSection, Tile
from context_engine.evaluation.compared import Compared
from context_engine.evaluation.statistics import Paired
from context_engine.evaluation.words import shown, signed

SHOWN_TILES: Final = 6


def evaluation_report(compared: Compared, *, title: str) -> ReportDocument:
    """Return the report."""
    ours, baseline = compared.ours, compared.baseline
    lead = f"{ours.name}: {len(compared.session.qrels)} judged questions"
    lead += f", against {baseline.name}." if baseline is not None else "."
    return ReportDocument(
        title=title,
        lead=lead,
        tiles=[_tile(compared, measure) for measure in ours.measures[:SHOWN_TILES]],
        sections=[one for one in _sections(compared) if one.blocks],
        notes=[*messages(compared.session.notices), *compared.troubles],
    )


def _sections(compared: Compared) -> Sequence[ReportSection]:
    return (
        sections.measures(compared),
        sections.depth(compared),
        sections.losses(compared),
        sections.spread(compared),
        *sections.side_by_side(compared),
        *sections.by_group(compared),
        cost_sections.authority(compared),
        cost_sections.tokens(compared),
        cost_sections.times(compared),
        sections.unanswerable(compared),
        *sections.extremes(compared),
        sections.set_up(compared),
        sections.method(compared),
        sections.every_question(compared),
    )


def _tile(compared: Compared, measure: str) -> Tile:
    mean, low, high = compared.ours.interval(measure)
    change, mood = "", "even"
    if compared.baseline is not None:
        difference = compared.ours.against(compared.baseline, measure)
        change, mood = f"{signed(difference.mean)} {_word(difference)}", _mood(difference)
    return Tile(label=measure, value=shown(mean), note=f"{shown(low)} to {shown(high)}", change=change, mood=mood)


def _mood(difference: Paired) -> str:
    if not difference.beyond_noise:
        return "even"
    return "good" if difference.mean > 0 else "bad"


def _word(difference: Paired) -> str:
    return "" if difference.beyond_noise else "within noise"
