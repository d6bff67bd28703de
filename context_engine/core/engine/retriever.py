"""Where the answers of stage 1 come from: the sources themselves, or answers that are at hand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, Protocol

from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.models import RawAnswer, SourceStatus


class SourceOutcome(NamedTuple):
    """What one source did, and its answer: None where it failed."""

    status: SourceStatus
    answer: RawAnswer | None


class Recalled(NamedTuple):
    """Stage 1: one outcome per source, in the order of the manifest, and the time it took."""

    outcomes: tuple[SourceOutcome, ...]
    elapsed_ms: float

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """What each source did."""
        return tuple(outcome.status for outcome in self.outcomes)

    @property
    def answers(self) -> tuple[RawAnswer, ...]:
        """The answers of the sources that gave one."""
        return tuple(outcome.answer for outcome in self.outcomes if outcome.answer is not None)


class RefillRequest(NamedTuple):
    """A call for more candidates.

    Attributes:
        places: of the sources to call again, in the order of the manifest.
        top_k: candidates requested of each.
    """

    places: tuple[int, ...]
    top_k: int


class Retriever(Protocol):
    """Stage 1 of a search."""

    def recall(self, plan: SearchPlan) -> Recalled:
        """Return what every source of the plan answers."""
        ...

    def recall_more(self, plan: SearchPlan, first: Recalled, refill: RefillRequest) -> Recalled | None:
        """Return stage 1 with longer answers of some sources; None where no more can be had.

        Args:
            plan: of the search.
            first: stage 1 so far.
            refill: the sources to call again.
        """
        ...

    def recall_again(self, plan: SearchPlan, first: Recalled) -> Recalled | None:
        """Return what every source answers to another wording; None where no time is left, or no source is called.

        Args:
            plan: with the other wording.
            first: what they answered to the first.
        """
        ...


class FixedAnswers:
    """Answers that are at hand, recorded or retrieved elsewhere: no source is called."""

    def __init__(self, outcomes: Sequence[SourceOutcome]) -> None:
        self._recalled = Recalled(tuple(outcomes), 0.0)

    def recall(self, plan: SearchPlan) -> Recalled:
        """Return them."""
        return self._recalled

    def recall_more(self, plan: SearchPlan, first: Recalled, refill: RefillRequest) -> Recalled | None:
        """Return None: there are no more."""
        return None

    def recall_again(self, plan: SearchPlan, first: Recalled) -> Recalled | None:
        """Return None: no source is called."""
        return None
