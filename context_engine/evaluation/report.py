"""The report of an evaluation: one set-up, or two side by side."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from context_engine.evaluation import sections
from context_engine.evaluation.blocks import Report, Section, Tile
from context_engine.evaluation.groups import Groups
from context_engine.evaluation.score import Scored
from context_engine.evaluation.session import Session
from context_engine.evaluation.statistics import Paired

__all__ = ["Compared", "evaluation_report", "shown", "signed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """What a report is about.

    Attributes:
        ours: the set-up under test.
        baseline: what it is compared with, None where there is nothing.
        without_authority: ours with the boost at 0, None where it was not run.
        primary: the measure by which questions are sorted.
    """

    session: Session
    ours: Scored
    baseline: Scored | None
    groups: Groups
    primary: str
    without_authority: Scored | None = None

    @property
    def both(self) -> tuple[Scored, ...]:
        """Ours, and the baseline where there is one."""
        return (self.ours,) if self.baseline is None else (self.ours, self.baseline)

    @property
    def texts(self) -> Mapping[str, str]:
        """The questions by id."""
        return {question.id: question.text for question, _ in self.session.questions}


SHOWN_TILES: Final = 6


def shown(value: float) -> str:
    """Return a measure as people read it."""
    return f"{value:.3f}"


def signed(value: float) -> str:
    """Return a difference with its sign.

    >>> signed(0.0123), signed(-0.0004)
    ('+0.012', '±0.000')
    """
    return "±0.000" if abs(value) < 0.0005 else f"{value:+.3f}".replace("-", "−")


def evaluation_report(compared: Compared, *, title: str) -> Report:
    """Return the report."""
    ours, baseline = compared.ours, compared.baseline
    lead = f"{ours.name}: {len(compared.session.qrels)} judged questions"
    lead += f", against {baseline.name}." if baseline is not None else "."
    return Report(
        title=title,
        lead=lead,
        tiles=[_tile(compared, measure) for measure in ours.measures[:SHOWN_TILES]],
        sections=[one for one in _sections(compared) if one.blocks],
        notes=compared.session.notes,
    )


def _sections(compared: Compared) -> Sequence[Section]:
    return (
        sections.measures(compared),
        sections.depth(compared),
        sections.losses(compared),
        sections.spread(compared),
        *sections.side_by_side(compared),
        *sections.by_group(compared),
        sections.authority(compared),
        sections.tokens(compared),
        sections.times(compared),
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
