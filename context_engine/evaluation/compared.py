"""A set-up's results, alone or beside a baseline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from context_engine.evaluation.groups import Groups
from context_engine.evaluation.score import Scored
from context_engine.evaluation.session import Session

__all__ = ["Compared"]


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
