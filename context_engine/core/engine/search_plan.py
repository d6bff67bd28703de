"""What a search runs with, and where the answers of stage 1 come from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import NamedTuple, Protocol

from context_engine.core.models import (
    AccessScope,
    EffectiveSettings,
    Notice,
    PreparedQuery,
    RawAnswer,
    SearchRequest,
    Settings,
    SourceSpec,
    SourceStatus,
)


class ClockReading(NamedTuple):
    """The time of a search, read once.

    Attributes:
        now: the moment, aware.
        as_of: the day the answer must be true for.
        today: whether that day is not past in the domain's time zone.
    """

    now: datetime
    as_of: date
    today: bool

    @classmethod
    def at(cls, now: datetime, zone: tzinfo, as_of: date | None) -> ClockReading:
        """Return the reading at a moment.

        Args:
            now: the moment, aware.
            zone: the domain's time zone.
            as_of: the day the request names; None is the current day in that zone.
        """
        current = now.astimezone(zone).date()
        day = as_of or current
        return cls(now, day, day >= current)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """A request with everything that was decided about it.

    Attributes:
        specs: the sources to search, in the order of the manifest.
        effective: the settings with their origins.
        prepared: how the query was understood; None where nothing was made of it.
        clock: the time of the search.
        notices: what the reader of any answer should know of the registry.
        access: which classes of chunks the caller may read; None: all.
    """

    request: SearchRequest
    specs: tuple[SourceSpec, ...]
    effective: EffectiveSettings
    prepared: PreparedQuery | None
    clock: ClockReading
    search_id: str
    notices: tuple[Notice, ...] = ()
    access: AccessScope | None = None

    @property
    def query(self) -> str:
        """The words that rank: the user's own, corrected where nothing was found for them."""
        return self.prepared.text if self.prepared is not None and self.prepared.corrected else self.request.query

    @property
    def settings(self) -> Settings:
        """The values of the settings."""
        return self.effective.values


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
