"""The engine: searches the sources of a domain, ranks their answers and accounts for every candidate."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Final, NoReturn, Self
from zoneinfo import ZoneInfo

from context_engine.core.engine.assemble import checked_result
from context_engine.core.engine.candidate_table import TextCache
from context_engine.core.engine.events import SearchTally, hand_over, log_context, log_search
from context_engine.core.engine.permission import check_mask, denial_notices, masks_refused, permitted_settings
from context_engine.core.engine.pipeline import SearchPipeline
from context_engine.core.engine.recompute import rank_chunks
from context_engine.core.engine.reranking import TimedReranker, chosen, rerank_step
from context_engine.core.engine.search_cache import AskedSearch, SearchCache, Searched
from context_engine.core.engine.search_plan import (
    ClockReading,
    SearchPlan,
    SystemClock,
    TimedRefiner,
    TimeSortedIds,
    default_settings,
    prepared_query,
)
from context_engine.core.engine.source_calls import SourceCalls
from context_engine.core.engine.source_pool import OpenedSource, OpenSource, SourcePool
from context_engine.core.models import (
    NOBODY,
    AccessRecord,
    AnswerRecord,
    Chunk,
    Context,
    DomainSpec,
    EffectiveSettings,
    FetchRequest,
    Notice,
    Principal,
    Registry,
    SearchRequest,
    SearchResult,
    Settings,
)
from context_engine.core.policy.access import OPEN_ACCESS, AccessViews, OpenAccess, RegistryView
from context_engine.core.policy.masking import as_kept, masked_request
from context_engine.core.protocols import (
    AccessPolicy,
    Clock,
    IdSource,
    Mask,
    QueryRefiner,
    Recorder,
    Reranker,
    ResultCache,
    TokenCounter,
)
from context_engine.core.tracing import Step, Tracer, current_span, span
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.core.context.render import Form

logger = logging.getLogger(__name__)
_FETCHES: Final = 4
"""Most parallel calls of a source when chunks are fetched; lower than for searches, which have priority."""

Resolve = Callable[[DomainSpec, SearchRequest], EffectiveSettings]


class Engine:
    """Two-stage retrieval over the sources of a registry. Safe for many threads; a context manager, `async with` too.

    Args:
        registry: all domains and their sources.
        open_source: opens a source on its first use; it must not wait for the network.
        resolve: returns the settings of a search; default: the built-in defaults and the call's overrides.
        rerankers: further model rerankers, by their name in `rerank_by`.
        clock, ids: the time and the search ids; injected so that a search can be repeated.
        recorder: records every result, refused request, context and fetch.
        access: decides who may search what, before any source is called.
        mask: masks personal data in domains that require it; without one such domains are refused.
        tracer: shows each search and the calls that it makes; None: nothing is shown.
        cache: keeps the answers that the settings allow to keep.

    Attributes:
        tally: counts its searches.
    """

    def __init__(
        self,
        registry: Registry,
        open_source: OpenSource,
        *,
        resolve: Resolve = default_settings,
        reranker: Reranker | None = None,
        rerankers: Mapping[str, Reranker] = MappingProxyType({}),
        refiner: QueryRefiner | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        recorder: Recorder | None = None,
        access: AccessPolicy = OPEN_ACCESS,
        mask: Mask | None = None,
        tracer: Tracer | None = None,
        cache: ResultCache | None = None,
    ) -> None:
        self.registry, self.mask, self.tally, self.tracer = registry, mask, SearchTally(), tracer
        self._views, self._restricts = AccessViews(registry, access), not isinstance(access, OpenAccess)
        self._resolve, self._recorder = resolve, recorder
        self._clock: Clock = clock or SystemClock()
        self._ids: IdSource = ids or TimeSortedIds()
        self._texts = TextCache()
        self._pool = SourcePool(open_source, self._clock)
        self._rerankers: dict[str | None, Reranker] = dict(rerankers.items())
        if reranker is not None:
            self._rerankers[None] = reranker
        self._timed_rerankers = {
            name: TimedReranker(reranker, self._clock) for name, reranker in self._rerankers.items()
        }
        self._timed_refiner = None if refiner is None else TimedRefiner(refiner, self._clock)
        models = [f"{name}={reranker.name}" for name, reranker in self._rerankers.items()]
        models += [] if refiner is None else [refiner.name]
        self._cache = None if cache is None else SearchCache(cache, self._clock, self._ids, self.tally, models)

    def __reduce__(self) -> NoReturn:
        raise TypeError("an Engine has open sources and cannot be copied: call build_engine in each process")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Run `close` in a worker thread; may be called twice."""
        import asyncio

        await asyncio.to_thread(self.close)

    def close(self) -> None:
        """Close every source that was opened; may be called twice."""
        self._pool.close()
        if self._cache is not None:
            self._cache.close()

    def reranker_name(self, settings: Settings) -> str | None:
        """Return the name of the model reranker that the settings of a search choose, or None."""
        reranker = chosen(self._rerankers, settings) if settings.reranking_enabled else None
        return None if reranker is None else reranker.name

    async def asearch(self, request: SearchRequest) -> SearchResult:
        """Run `search` in a worker thread; the same engine, the same result."""
        import asyncio

        return await asyncio.to_thread(self.search, request)

    def visible(self, principal: Principal) -> Registry:
        """Return the part of the registry that a principal may know.

        Raises:
            PolicyError: the access policy failed.
        """
        return self._views.of(principal).registry

    def left_alone(self) -> dict[tuple[str, str], bool]:
        """Return for each domain and opened source whether it is left alone because it was too slow."""
        return self._pool.left_alone()

    def watched_recall(self) -> dict[tuple[str, str], float]:
        """Return the recall of approximate searches for each domain and opened source whose store watches it."""
        return self._pool.watched_recall()

    def search(self, request: SearchRequest) -> SearchResult:
        """Search everything that the request's principal may search; the rest appears not to exist.

        Raises:
            UnknownDomain: the domain is not registered.
            PolicyError: the access policy failed.
            InvalidRequest: an unknown source or option, or a threshold for a score that no source gives.
            ConfigError: the domain's configuration is unusable.
            AuditUnavailable: the answer could not be recorded and is therefore not given.
            AllSourcesFailed: no source answered; carries the result with every status. Its cause is the first source's
                error, whose cause is the adapter's exception.
            EvidenceIncomplete: `strict` is set and required evidence is missing.
        """
        if not isinstance(request, SearchRequest):
            raise InvalidRequest(f"search takes a SearchRequest(query=..., domain=...), got {type(request).__name__}")
        with span(Step.SEARCH, request.domain, self.tracer):
            return checked_result(self._recorded(request))

    def context(
        self,
        result: SearchResult,
        *,
        counter: TokenCounter,
        budget: int | None = None,
        form: Form = "markdown",
        nonce: str | None = None,
        part: int = 1,
    ) -> Context:
        """Return the context for a model from a result of this engine, and record it.

        Args:
            budget, form, nonce, part: see `context_engine.core.context.from_result`.

        Raises:
            AuditUnavailable: it could not be recorded and is therefore not given.
            InvalidRequest, MaskingError: see `from_result`.
        """
        from context_engine.core.context import from_result  # a search alone does not need it

        made = from_result(result, counter=counter, budget=budget, form=form, nonce=nonce, mask=self.mask, part=part)
        self.read(result, made)
        return made

    def read(self, result: SearchResult, context: Context) -> None:
        """Record a context that `from_result` made from a result of this engine.

        Raises:
            AuditUnavailable: it could not be recorded and must not be used.
        """
        self._record(lambda recorder: recorder.assembled(result, context), f"a context of search {result.search_id}")
        log_context(result, context)

    def answered(self, result: SearchResult, answer: AnswerRecord) -> str:
        """Record an answer composed from a result of this engine, and return its new id.

        Raises:
            AuditUnavailable: it could not be recorded and must not be given.
        """
        answer_id = self._ids.new(self._clock.now())
        self._record(lambda recorder: recorder.answered(result, answer, answer_id), f"the answer {answer_id}")
        self.tally.note_answer(result.domain, answer)
        current_span().tell(answer)
        return answer_id

    def rank(
        self,
        request: SearchRequest,
        chunks: Sequence[Chunk],
        *,
        domain: DomainSpec,
        notices: Sequence[Notice] = (),
        recorder: Recorder | None = None,
    ) -> SearchResult:
        """Run stage 2 over chunks that were retrieved elsewhere, with the reranker and the settings of this engine.

        Args:
            domain: has one source, to which the chunks are attributed.
            notices: about the chunks; added to the result.

        Raises:
            InvalidRequest: an invalid option.
            AuditUnavailable: the result could not be recorded and is therefore not given.
        """
        settings = self._resolve(domain, request)
        return rank_chunks(
            request,
            domain.sources[0],
            chunks,
            settings=settings,
            notices=notices,
            reranker=chosen(self._rerankers, settings.values),
            clock=self._clock,
            ids=self._ids,
            mask=self.mask,
            recorder=recorder,
        )

    def fetch(self, source_id: str, request: FetchRequest, principal: Principal = NOBODY) -> tuple[Chunk, ...]:
        """Return the current chunks of a source by their ids, without those the principal may not read; record the ids.

        Args:
            source_id: a source of the domain; one that the principal may not search counts as unknown.
            request: its `access` is set here.

        Raises:
            UnknownDomain: the domain is not registered.
            PolicyError: the access policy failed.
            ConfigError: the source's configuration is unusable.
            AuditUnavailable: the fetch could not be recorded, so nothing is returned.
            FetchUnsupported: the adapter cannot fetch chunks by id.
            SourceError: the domain has no such source, or the source failed.
        """
        view = self._views.of(principal)
        source = self._pool.source(view.registry.domain(request.domain), source_id)
        allowed = replace(request, access=view.decisions[request.domain].scope)
        chunks = source.fetch(allowed, _FETCHES)
        if chunks:
            self._record(
                lambda recorder: recorder.fetched(principal, request.domain, source_id, chunks),
                f"chunks of source {source_id}",
            )
        return chunks

    def _recorded(self, request: SearchRequest) -> SearchResult:
        """Search, and record the result or the refusal."""
        started = self._clock.monotonic()
        principal, decision = request.principal, None
        try:
            view = self._views.of(principal)
            decision = view.decisions.get(request.domain)
            result, withheld = self._searched(request, view, started)
        except Exception as error:
            access, cause = AccessRecord(principal=principal, decision=decision), error
            self._record(lambda recorder: recorder.refuse(self._as_kept(request), access, cause), "a refused request")
            raise
        self._report(result, AccessRecord(principal=principal, decision=decision, withheld=withheld))
        return result

    def _searched(self, request: SearchRequest, view: RegistryView[Registry], started: float) -> Searched:
        """Return the result of a search, from the cache if it is there, and the chunks withheld from the caller."""
        domain = view.registry.domain(request.domain)
        effective = self._resolve(domain, request)
        if self._restricts:
            effective = permitted_settings(effective, domain)
        check_mask(self.mask, effective.values, domain)
        sources = self._pool.sources(domain, effective.values, request)
        asked = AskedSearch(request, view, effective, sources)
        if self._cache is None:
            return self._made(asked, started)
        return self._cache.answer(asked, lambda: self._made(asked, started))

    def _made(self, asked: AskedSearch, started: float) -> Searched:
        plan = self._plan(asked)
        calls = self._calls(plan, asked.sources, started)
        domain = asked.view.registry.domain(plan.request.domain)
        return self._pipeline(plan, domain, calls, started).run(plan), calls.withheld

    def _as_kept(self, request: SearchRequest) -> SearchRequest:
        """Return a refused request in the form to be recorded."""
        if self.mask is None or not masks_refused(self.registry, self._resolve):
            return request
        return masked_request(request, self.mask)

    def _plan(self, asked: AskedSearch) -> SearchPlan:
        """Return the plan of a search; this calls the query refiner."""
        request, view, effective, sources = asked
        domain, decision = view.registry.domain(request.domain), asked.decision
        now = self._clock.now()
        return SearchPlan(
            request=request,
            specs=tuple(spec for spec, _ in sources),
            effective=effective,
            clock=ClockReading.at(now, ZoneInfo(domain.timezone), request.as_of),
            search_id=self._ids.new(now),
            prepared=prepared_query(request.query, domain.glossary, effective.values, self._timed_refiner),
            notices=(*denial_notices(domain, decision), *view.registry.notices),
            access=decision.scope,
        )

    def _calls(self, plan: SearchPlan, sources: Sequence[OpenedSource], started: float) -> SourceCalls:
        """Return the calls of the sources, all due at the search's deadline."""
        clock, deadline_s = self._clock, plan.settings.deadline_s
        due = started + deadline_s
        # Without a refiner, opening the sources does not count against their time.
        seconds = deadline_s if self._timed_refiner is None else due - clock.monotonic()
        return SourceCalls(sources, clock, started=started, due=due, seconds=seconds)

    def _pipeline(self, plan: SearchPlan, domain: DomainSpec, calls: SourceCalls, started: float) -> SearchPipeline:
        """Return the pipeline over the sources and the reranker, which is due at the search's deadline."""
        clock, settings = self._clock, plan.settings
        due = started + settings.deadline_s
        step = rerank_step(
            chosen(self._timed_rerankers, settings),
            settings,
            lambda: due - clock.monotonic(),
            self.mask,
            lambda: calls.adapter,
        )
        return SearchPipeline(
            calls,
            step,
            clock.monotonic,
            self._texts.analysed,
            watch=lambda name: span(Step.STAGE, name),
            prepare=lambda query: prepared_query(query, domain.glossary, settings, None),
        )

    def _report(self, result: SearchResult, access: AccessRecord) -> None:
        """Log the numbers of each stage, in one line and as events, and record the result."""
        log_search(result, self.reranker_name(result.settings.values) or "noop")
        self.tally.note(result)
        for status in result.sources:
            if status.error is not None:
                logger.warning("search %s: %s", result.search_id, status.error["message"])
        self._record(lambda recorder: recorder.record(as_kept(result, self.mask), access), f"search {result.search_id}")
        current_span().tell(result)

    def _record(self, keep: Callable[[Recorder], None], subject: str) -> None:
        hand_over(self._recorder, keep, subject)
