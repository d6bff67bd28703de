"""A set-up's results, alone or beside a baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from context_engine.evaluation.account import troubles_of
from context_engine.evaluation.groups import Groups
from context_engine.evaluation.score import Scored
from context_engine.evaluation.session import Session


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
    def troubles(self) -> Sequence[str]:
        """What stands in the way of believing the numbers: sources that did not answer, rankings that are not there."""
        found = []
        for one in self.both:
            if one.run is not None:
                found += [f"{one.name}: {trouble}" for trouble in troubles_of(a.troubles for a in one.run.answers)]
            lacking = sum(question not in one.rankings for question in self.session.qrels)
            if one.run is None and lacking:
                count = len(self.session.qrels)
                found.append(f"{one.name} ranks nothing for {lacking} of the {count} judged questions, which count 0")
        return found

    @property
    def degraded(self) -> bool:
        """Whether a source, the embedder or the reranker did not do its part in some search."""
        return any(answer.troubles for one in self.both if one.run is not None for answer in one.run.answers)

    @property
    def texts(self) -> Mapping[str, str]:
        """The questions by id."""
        return {question.id: question.text for question, _ in self.session.questions}
