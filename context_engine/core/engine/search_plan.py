"""The plan of a search: settings, clock, ids and prepared query; and the protocol of stage 1."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, tzinfo
from typing import NamedTuple, Protocol

from pydantic import ValidationError

from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.concurrency.calls import DeadlineCaller
from context_engine.core.models import (
    AccessScope,
    DomainSettings,
    DomainSpec,
    EffectiveSettings,
    Notice,
    PreparedQuery,
    RankedChunk,
    RawAnswer,
    SearchRequest,
    SearchSettings,
    Settings,
    SettingsGroup,
    SourceSpec,
    SourceStatus,
    lifetime,
)
from context_engine.core.protocols import Clock, QueryRefiner
from context_engine.core.query import prepare
from context_engine.core.query.prepare import refined, unrefined
from context_engine.errors import InvalidRequest, RefinerError, nearest


class ClockReading(NamedTuple):
    """The time of a search, read once.

    Attributes:
        now: the current time, timezone-aware.
        as_of: the day for which the answer must be valid.
        today: whether that day is today or later in the domain's time zone.
    """

    now: datetime
    as_of: date
    today: bool

    @classmethod
    def at(cls, now: datetime, zone: tzinfo, as_of: date | None) -> ClockReading:
        """Return the reading at a given time.

        Args:
            now: timezone-aware.
            as_of: the day that the request names; None: today in that zone.
        """
        current = now.astimezone(zone).date()
        day = as_of or current
        return cls(now, day, day >= current)


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchPlan:
    """A request with everything that was decided about it.

    Attributes:
        specs: the sources to search, in the order of the manifest.
        prepared: the prepared query; None if the query is searched as written.
        notices: about the registry; added to every answer.
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
        """The query text used for ranking: the user's, or the corrected one if nothing was found for it."""
        return self.prepared.text if self.prepared is not None and self.prepared.corrected else self.request.query

    @property
    def settings(self) -> Settings:
        """The values of the settings."""
        return self.effective.values


class SourceOutcome(NamedTuple):
    """The status of a source, and its answer: None if it failed."""

    status: SourceStatus
    answer: RawAnswer | None


class Recalled(NamedTuple):
    """Stage 1: one outcome per source, in the order of the manifest, and the time it took."""

    outcomes: tuple[SourceOutcome, ...]
    elapsed_ms: float

    @property
    def statuses(self) -> tuple[SourceStatus, ...]:
        """The status of each source."""
        return tuple(outcome.status for outcome in self.outcomes)

    @property
    def answers(self) -> tuple[RawAnswer, ...]:
        """The answers of the sources that did not fail."""
        return tuple(outcome.answer for outcome in self.outcomes if outcome.answer is not None)


class RefillRequest(NamedTuple):
    """A call for more candidates.

    Attributes:
        places: indices of the sources to call again, in the order of the manifest.
        top_k: candidates to request from each.
    """

    places: tuple[int, ...]
    top_k: int


class Retriever(Protocol):
    """Stage 1 of a search."""

    def recall(self, plan: SearchPlan) -> Recalled:
        """Return the answers of all sources of the plan."""
        ...

    def recall_more(self, plan: SearchPlan, first: Recalled, refill: RefillRequest) -> Recalled | None:
        """Return stage 1 with longer answers of some sources; None if no more are available."""
        ...

    def recall_again(self, plan: SearchPlan, first: Recalled) -> Recalled | None:
        """Return the answers to another wording; None if no time is left or the answers are fixed."""
        ...

    def recall_linked(self, plan: SearchPlan, first: Recalled, returned: Sequence[RankedChunk]) -> Recalled | None:
        """Return stage 1 with the chunks that the returned ones lead to; None if nothing is added."""
        ...


class FixedAnswers:
    """A `Retriever` of given answers, recorded or retrieved elsewhere; it calls no source."""

    def __init__(self, outcomes: Sequence[SourceOutcome]) -> None:
        self._recalled = Recalled(tuple(outcomes), 0.0)

    def recall(self, plan: SearchPlan) -> Recalled:
        """Return the given answers."""
        return self._recalled

    def recall_more(self, plan: SearchPlan, first: Recalled, refill: RefillRequest) -> Recalled | None:
        """Return None: there are no more answers."""
        return None

    def recall_again(self, plan: SearchPlan, first: Recalled) -> Recalled | None:
        """Return None: no source is called."""
        return None

    def recall_linked(self, plan: SearchPlan, first: Recalled, returned: Sequence[RankedChunk]) -> Recalled | None:
        """Return None: the answers hold the linked chunks."""
        return None


class TimedRefiner:
    """A query refiner that is called with a deadline."""

    def __init__(self, refiner: QueryRefiner, clock: Clock) -> None:
        self._refiner = refiner
        self._caller = DeadlineCaller(refiner.name, "refine", clock.monotonic, RefinerError)

    def refined(self, query: PreparedQuery, *, seconds: float, weight: float) -> PreparedQuery:
        """Return the query with the refiner's additions, or with a notice of the failure."""
        name = self._refiner.name
        try:
            answer = self._caller.call(
                lambda: awaited(self._refiner.refine(query.text, query.language)), seconds, nothing="nothing"
            )
            return refined(query, answer, refiner=name, weight=weight)
        except RefinerError as error:
            return unrefined(query, str(error), refiner=name)


def prepared_query(
    query: str, glossary: Mapping[str, Sequence[str]], settings: Settings, refiner: TimedRefiner | None
) -> PreparedQuery:
    """Return the prepared query.

    Args:
        refiner: called if `query_refinement` is on, for at most half of the search's time; the sources get the rest.
    """
    weight = settings.query_expansion_weight if settings.query_expansion else 0.0
    prepared = prepare(
        query,
        entries=glossary,
        expansion_weight=weight,
        multi_query=settings.multi_query,
        most_chars=settings.query_max_chars,
        segmenter=settings.word_segmenter,
    )
    if refiner is None or not settings.query_refinement:
        return prepared
    return refiner.refined(
        prepared, seconds=min(settings.query_refiner_timeout_s, settings.deadline_s / 2.0), weight=weight
    )


def default_settings(domain: DomainSpec, request: SearchRequest) -> EffectiveSettings:
    """Return the default settings, overridden by those of the domain and then those of the call.

    Raises:
        InvalidRequest: a persona, an unknown setting, one that a domain or a call cannot set, or an invalid value.
    """
    if request.persona is not None:
        raise InvalidRequest(f"persona {request.persona!r} is unknown: this engine was made without a configuration")
    _check_keys(domain.settings, DomainSettings)
    _check_keys(request.call_settings, SearchSettings)
    try:
        values = Settings.model_validate({**domain.settings, **request.call_settings})
    except ValidationError as error:
        raise InvalidRequest(_message(error)) from None
    origins = {**dict.fromkeys(domain.settings, "domain"), **dict.fromkeys(request.call_settings, "call")}
    return EffectiveSettings(values=values, origins=origins)


def _check_keys(keys: Iterable[str], allowed: type[SettingsGroup]) -> None:
    """Refuse settings of other groups; unknown settings are found by the validation."""
    for key in keys:
        if key in Settings.model_fields and key not in allowed.model_fields:
            raise InvalidRequest(f"setting {key} {lifetime(key)}: give the engine a `resolve` that sets it")


def _message(error: ValidationError) -> str:
    """Return the first problem as a sentence. A problem between several settings already names them."""
    first = error.errors(include_url=False)[0]
    key = ".".join(map(str, first["loc"]))
    if first["type"] == "value_error":
        problem = str(first["ctx"]["error"])
    else:
        hint = nearest(key, Settings.model_fields) if first["type"] == "extra_forbidden" else ""
        problem = f"{first['msg']}, got {first['input']!r}.{hint}"
    return f"setting {key}: {problem}" if key else problem


class SystemClock:
    """The machine's clock."""

    def now(self) -> datetime:
        """Return the current time, UTC."""
        return datetime.now(UTC)

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()


class TimeSortedIds:
    """Ids of 24 hex digits: 12 of milliseconds since 1970, 12 random."""

    def new(self, now: datetime) -> str:
        """Return a new id that sorts after every id of an earlier millisecond."""
        return f"{int(now.timestamp() * 1000):012x}{secrets.token_hex(6)}"
