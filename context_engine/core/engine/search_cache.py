"""Answers to equal searches from a cache, under a key that holds everything that an answer depends on."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

from cachetools import LRUCache
from pydantic import BaseModel

from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine.events import SearchTally
from context_engine.core.engine.permission import denial_notices
from context_engine.core.engine.recall import SourceBulkhead
from context_engine.core.engine.search_plan import ClockReading
from context_engine.core.engine.source_pool import OpenedSource
from context_engine.core.models import (
    AccessDecision,
    EffectiveSettings,
    KeptSearch,
    Notice,
    NoticeCode,
    RankedChunk,
    Registry,
    SearchRequest,
    SearchResult,
    Settings,
    SourceSpec,
    SourceStatus,
    Status,
    WithheldChunk,
    canonical_json,
)
from context_engine.core.policy.access import RegistryView
from context_engine.core.protocols import Clock, EpochCache, IdSource, ResultCache
from context_engine.errors import ContextEngineError

_PASSING: Final = frozenset((NoticeCode.QUERY_NOT_REFINED, NoticeCode.RERANK_FAILED, NoticeCode.LINKS_NOT_FOLLOWED))
"""Failures that the next search may not have."""

_VERSION_S: Final = 1.0  # most seconds for asking a source for its version
_MOST_DIGESTS: Final = 256

Searched = tuple[SearchResult, tuple[WithheldChunk, ...]]
"""A result, and the chunks withheld from the caller."""


class AskedSearch(NamedTuple):
    """A search that is about to be made.

    Attributes:
        view: what its principal may know.
        effective: its settings.
        sources: in the order of the manifest.
    """

    request: SearchRequest
    view: RegistryView[Registry]
    effective: EffectiveSettings
    sources: Sequence[OpenedSource]

    @property
    def decision(self) -> AccessDecision:
        """The decision about the domain."""
        return self.view.decisions[self.request.domain]


class _Ticket(NamedTuple):
    """The place of an answer in the cache.

    Attributes:
        key: 64 hex digits.
        versions: of the sources; "" for one that cannot tell.
        epoch: of the store.
        seconds: the longest lifetime.
        clock: the time at which the answer was looked up.
    """

    key: str
    versions: tuple[str, ...]
    epoch: str
    seconds: float
    clock: ClockReading


class SearchCache:
    """Gives the answer to an equal search again, as long as nothing that it depends on has changed.

    Args:
        store: keeps the results.
        ids: makes the search id of each answer from the cache.
        tally: counts hits and misses.
        models: the names of the rerankers and of the refiner, in a fixed order.
    """

    def __init__(
        self, store: ResultCache, clock: Clock, ids: IdSource, tally: SearchTally, models: Sequence[str]
    ) -> None:
        self._store, self._clock, self._ids, self._tally = store, clock, ids, tally
        self._models, self._digests = tuple(models), _Digests()

    def answer(self, asked: AskedSearch, search: Callable[[], Searched]) -> Searched:
        """Return the kept answer to an equal search under an id of its own, else search and keep what may be kept.

        Args:
            search: makes the search; its exceptions are raised here.
        """
        ticket = self._ticket(asked)
        if ticket is None:
            return search()
        kept = self._store.get(ticket.key)
        usable = kept is not None and kept.result.now <= ticket.clock.now < kept.until
        self._tally.note_cache(asked.request.domain, hit=usable)
        if kept is not None and usable:
            return renewed(kept.result, asked, ticket.clock, self._ids), kept.withheld
        searched = search()
        self._keep(ticket, asked, searched)
        return searched

    def close(self) -> None:
        """Close the store; may be called twice."""
        self._store.close()

    def _keep(self, ticket: _Ticket, asked: AskedSearch, searched: Searched) -> None:
        """Keep an answer, unless something that the key holds has changed during the search."""
        result, withheld = searched
        same_day = (result.as_of, result.today) == (ticket.clock.as_of, ticket.clock.today)
        unchanged = (_versions(asked), self._epoch()) == (ticket.versions, ticket.epoch)
        if not (is_keepable(result) and same_day and unchanged):
            return
        seconds = lifetime_s(result, ticket.seconds)
        if seconds > 0:
            self._store.put(ticket.key, KeptSearch(result, withheld, result.now + timedelta(seconds=seconds)))

    def _ticket(self, asked: AskedSearch) -> _Ticket | None:
        """Return the place of an answer; None if it may not be kept."""
        settings = asked.effective.values
        versions = _versions(asked) if settings.cache_ttl_s > 0 else None
        seconds = 0.0 if versions is None else _longest_s(settings, versions)
        epoch = self._epoch() if seconds > 0 else None
        if versions is None or epoch is None:
            return None
        request, caller = asked.request, asked.request.caller
        zone = ZoneInfo(asked.view.registry.domain(request.domain).timezone)
        clock = ClockReading.at(self._clock.now(), zone, request.as_of)
        # A source that cannot tell its version may be an adapter that answers according to who asks.
        asker = None if all(versions) else (caller.principal, caller.on_behalf_of, caller.app)
        depends = [self._depends_on(asked), clock.as_of, clock.today, versions, epoch, asker, self._models]
        return _Ticket(_digest(depends), versions, epoch, seconds, clock)

    def _epoch(self) -> str | None:
        return self._store.epoch() if isinstance(self._store, EpochCache) else ""

    def _depends_on(self, asked: AskedSearch) -> Mapping[str, Any]:
        """Return what an answer depends on, apart from the time and the contents of the sources."""
        request, decision, registry = asked.request, asked.decision, asked.view.registry
        domain, scope = registry.domain(request.domain), decision.scope
        return {
            "query": request.query,
            "persona": request.persona,
            "as_of": request.as_of,
            "filters": repr(request.filters),
            "requires": [request.require_tiers, request.require_sources],
            "domain": self._digests.of(domain),
            "settings": self._digests.of(asked.effective.values),
            "sources": [spec.id for spec, _ in asked.sources],
            "access": [decision.sources, decision.policy_hash],
            "scope": None if scope is None else [sorted(scope.rules), scope.clearance],
            "notices": [notice.to_dict() for notice in (*denial_notices(domain, decision), *registry.notices)],
        }


def is_keepable(result: SearchResult) -> bool:
    """Return whether an answer is complete, without a notice of a source and without a failure of a model."""
    undisturbed = not any(status.notices or status.error for status in result.sources)
    without_failure = _PASSING.isdisjoint(notice.code for notice in result.notices)
    return result.status is Status.COMPLETE and undisturbed and without_failure


def lifetime_s(result: SearchResult, seconds: float) -> float:
    """Return how long an answer may be kept: at most `seconds`, and at most until one of its candidates expires."""
    specs = {spec.id: spec for spec in result.specs}
    left = (
        _ttl_s(chunk.ttl_seconds, specs[answer.source_id]) - (result.now - chunk.fetched_at).total_seconds()
        for answer in result.raw
        for chunk in answer.chunks
        if chunk.fetched_at is not None
    )
    return min([seconds, *(rest for rest in left if rest >= 0)])


def renewed(result: SearchResult, asked: AskedSearch, clock: ClockReading, ids: IdSource) -> SearchResult:
    """Return a kept result as the answer to another search: under a new id, with its own caller and no times."""
    request, search_id = asked.request, ids.new(clock.now)
    return replace(
        result,
        search_id=search_id,
        request_id=request.request_id,
        caller=request.caller,
        request=request,
        now=clock.now,
        settings=asked.effective,
        specs=tuple(spec for spec, _ in asked.sources),
        chunks=tuple(_tagged(chunk, search_id) for chunk in result.chunks),
        sources=tuple(_uncalled(status) for status in result.sources),
        stages=tuple(stage._replace(elapsed_ms=0.0) for stage in result.stages),
        notices=(*result.notices, _from_cache(int((clock.now - result.now).total_seconds()))),
    )


def _from_cache(age_s: int) -> Notice:
    message = f"the answer was made {age_s} s ago for an equal search, and kept"
    return Notice(NoticeCode.FROM_CACHE, "", message, {"age_s": age_s})


def _tagged(chunk: RankedChunk, search_id: str) -> RankedChunk:
    tag = chunk.provenance
    return replace(chunk, provenance=replace(tag, extra={**tag.extra, "search_id": search_id}))


def _uncalled(status: SourceStatus) -> SourceStatus:
    return replace(status, elapsed_ms=0.0, embedding=None)


def _ttl_s(of_chunk: int | None, spec: SourceSpec) -> int:
    return spec.ttl_seconds if of_chunk is None else of_chunk


def _longest_s(settings: Settings, versions: Iterable[str]) -> float:
    if all(versions):
        return settings.cache_ttl_s
    return min(settings.cache_ttl_s, settings.cache_unversioned_ttl_s)


def _versions(asked: AskedSearch) -> tuple[str, ...] | None:
    """Return the version of each source, "" for one that cannot tell; None if one could not be opened or asked."""
    versions: dict[int, str] = {}
    for _, source in asked.sources:
        if not isinstance(source, SourceBulkhead):
            return None
        versioned = source.versioned
        if versioned is not None and id(versioned) not in versions:
            try:
                versions[id(versioned)] = versioned.version(asked.decision.scope, _VERSION_S)
            except ContextEngineError:  # the search itself will report the problem
                return None
    return tuple(
        versions.get(id(source.versioned), "") for _, source in asked.sources if isinstance(source, SourceBulkhead)
    )


class _Digests:
    """SHA-256 of domains and settings, by the identity of the objects, which are kept alive."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._made: LRUCache[int, tuple[BaseModel, str]] = LRUCache(_MOST_DIGESTS)

    def of(self, model: BaseModel) -> str:
        """Return the digest of all values of a frozen model."""
        with self._lock:
            made = self._made.get(id(model))
        if made is None:
            made = model, _digest(model.model_dump(mode="json"))
            with self._lock:
                self._made[id(model)] = made
        return made[1]


def _digest(value: Any) -> str:
    return hashlib.sha256(canonical_json(value).encode("utf-8", "surrogatepass")).hexdigest()
