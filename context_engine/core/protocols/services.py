"""Protocols for services of the engine: masking, access control, authentication, recording, events, time and ids."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from datetime import datetime
from typing import NamedTuple, Protocol, runtime_checkable

from context_engine.core.models import (
    AccessDecision,
    AccessRecord,
    AnswerRecord,
    Authenticated,
    Chunk,
    Context,
    DomainSpec,
    Event,
    KeptSearch,
    Principal,
    SearchRequest,
    SearchResult,
)


class PersonalData(NamedTuple):
    """A place in a text that holds personal data.

    Attributes:
        start, end: characters [start, end) of the text.
        kind: the kind of data in capitals ("IBAN"); part of the pseudonym.
        value: the normalized value: all spellings of one person, account or number share it.
    """

    start: int
    end: int
    kind: str
    value: str


@runtime_checkable
class Masker(Protocol):
    """Finds certain kinds of personal data, such as names. Safe for several threads at once.

    Each place found is replaced by a keyed pseudonym, so that equal values stay equal.
    """

    def find(self, text: str) -> Iterable[PersonalData]:
        """Return the places to mask, in any order; they may overlap those of other maskers."""
        ...


Mask = Callable[[str], str]
"""Returns a text with its personal data replaced; a text that is already masked does not change."""


class AccessPolicy(Protocol):
    """Decides which sources a caller may search. Thread-safe; consulted before any source is called.

    Attributes:
        policy_hash: identifies the rules; policies with equal hashes decide alike.
    """

    @property
    def policy_hash(self) -> str: ...

    def decide(self, principal: Principal, domain: DomainSpec) -> AccessDecision:
        """Return the sources that a principal may search in a domain; fewer roles must never permit more."""
        ...

    def rules_of(self, source_id: str) -> str:
        """Return an identifier of a source's rules, equal for sources that admit the same; "" if open to all."""
        ...


class Authenticator(Protocol):
    """Determines who a request comes from. Safe for many threads; never waits for the network."""

    def authenticate(self, authorization: str | None) -> Authenticated:
        """Return the authenticated caller.

        Args:
            authorization: the Authorization header, decoded as Latin-1; None if absent.

        Raises:
            NotAuthenticated: the token is missing or not accepted.
            TokensUnchecked: the token cannot be checked now.
        """
        ...

    def problems(self) -> tuple[str, ...]:
        """Return why some tokens cannot be checked now, one sentence each; () if all can."""
        ...

    def close(self) -> None:
        """Stop its background work; may be called twice."""
        ...


class Recorder(Protocol):
    """Records every search before its answer is returned. Safe for many threads.

    Each method may raise `AuditUnavailable`; an unrecorded answer must not be returned. Any other error is logged, and
    the search continues.
    """

    def record(self, result: SearchResult, access: AccessRecord) -> None:
        """Record a result, even if every source failed, and the effect of access control on it."""
        ...

    def refuse(self, request: SearchRequest, access: AccessRecord, error: Exception) -> None:
        """Record a request that had no result, and the error raised for it.

        Args:
            access: its decision is None if the caller has no such domain or no policy decided.
        """
        ...

    def assembled(self, result: SearchResult, context: Context) -> None:
        """Record the context built for a model from a recorded result."""
        ...

    def answered(self, result: SearchResult, answer: AnswerRecord, record_id: str) -> None:
        """Record an answer composed from a recorded result, under an id of its own."""
        ...

    def fetched(self, principal: Principal, domain: str, source_id: str, chunks: Sequence[Chunk]) -> None:
        """Record which chunks of a source a principal fetched by id."""
        ...


class ResultCache(Protocol):
    """Keeps results for equal searches. Safe for many threads; a store that fails keeps nothing and raises nothing."""

    def get(self, key: str) -> KeptSearch | None:
        """Return what was put under a key, even if its time is over; None if nothing is kept."""
        ...

    def put(self, key: str, kept: KeptSearch) -> None:
        """Keep a result until `kept.until`, or for a shorter time if there is no room."""
        ...

    def close(self) -> None:
        """Release connections; may be called twice."""
        ...


class EventSink(Protocol):
    """Takes events for other systems. Safe for many threads; never waits for the network."""

    def send(self, event: Event) -> None:
        """Keep an event until it is delivered. An event that was sent before, by its id, may be delivered twice.

        Raises:
            ConfigError: it cannot be kept.
        """
        ...

    def close(self) -> None:
        """Deliver what can be delivered at once; may be called twice."""
        ...


@runtime_checkable
class EpochCache(ResultCache, Protocol):
    """A store whose results may have to be forgotten all at once, as after an erasure; optional."""

    def epoch(self) -> str | None:
        """Return a text that is new whenever nothing kept before may be used any more.

        Returns:
            None if it cannot be told now: then nothing is taken from the store, and nothing is kept.
        """
        ...


class Clock(Protocol):
    """The time; passed in so that a search can be repeated."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, in UTC."""
        ...

    def monotonic(self) -> float:
        """Return monotonic seconds."""
        ...


class IdSource(Protocol):
    """Makes search ids."""

    def new(self, now: datetime) -> str:
        """Return a new id; ids sort by creation time."""
        ...
