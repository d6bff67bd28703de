"""What a search runs with, settled before any source is called."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime, tzinfo
from typing import NamedTuple

from context_engine.core.models import (
    AccessScope,
    EffectiveSettings,
    Notice,
    PreparedQuery,
    SearchRequest,
    Settings,
    SourceSpec,
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
