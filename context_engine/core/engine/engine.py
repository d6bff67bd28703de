"""The engine: ask every source of a domain, rank what they answer, account for all of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Self
from zoneinfo import ZoneInfo

from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine.asking import Asked, Question, ask
from context_engine.core.engine.checks import check_threshold, chosen_sources
from context_engine.core.engine.clock import SystemClock, TimeSortedIds
from context_engine.core.engine.deeper import Look, second_look
from context_engine.core.engine.defaults import default_settings
from context_engine.core.engine.outcome import assemble, raw_answers, source_statuses, stage_two
from context_engine.core.engine.recall import Lane, Reply, as_source_error
from context_engine.core.engine.refining import RefineLane, prepared_query
from context_engine.core.engine.reranking import RerankLane, rerank_step
from context_engine.core.engine.stage2 import rank
from context_engine.core.engine.text_cache import TextCache
from context_engine.core.models import (
    Decision,
    DomainSpec,
    EffectiveSettings,
    Registry,
    SearchRequest,
    SearchResult,
    SourceSpec,
    Status,
)
from context_engine.core.protocols import Clock, IdSource, QueryRefiner, Recorder, Reranker, Source
from context_engine.errors import (
    AllSourcesFailed,
    ConfigError,
    ContextEngineError,
    EvidenceIncomplete,
    InvalidRequest,
    SourceError,
)

__all__ = ["Engine"]

logger = logging.getLogger(__name__)

Resolve = Callable[[DomainSpec, SearchRequest], EffectiveSettings]
OpenSource = Callable[[DomainSpec, SourceSpec], Source]


class Engine:
    """Two-stage retrieval over the sources of a registry. Safe for many threads; a context manager.

    Args:
        registry: the domains and their sources.
        open_source: opens a source, called once per source on its first use; it must not wait for the network.
        resolve: the settings of a search; the built-in defaults and the call's overrides where left out.
        reranker: a model reranker; None for none.
        refiner: a query refiner; None for none.
        clock, ids: the time and the search ids; passed in so that a search can be repeated.
        recorder: takes every result.
    """

    def __init__(
        self,
        registry: Registry,
        open_source: OpenSource,
        *,
        resolve: Resolve = default_settings,
        reranker: Reranker | None = None,
        refiner: QueryRefiner | None = None,
        clock: Clock | None = None,
        ids: IdSource | None = None,
        recorder: Recorder | None = None,
    ) -> None:
        self.registry = registry
        self._open_source, self._resolve = open_source, resolve
        self._reranker, self._recorder = reranker, recorder
        self._clock: Clock = clock or SystemClock()
        self._rerank_lane = None if reranker is None else RerankLane(reranker, self._clock)
        self._refine_lane = None if refiner is None else RefineLane(refiner, self._clock)
        self._ids: IdSource = ids or TimeSortedIds()
        self._texts = TextCache()
        self._lanes: dict[tuple[str, str], Lane] = {}
        self._lock = Lock()
        self._opening: dict[tuple[str, str], Lock] = {}
        self._closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close every source that was opened; may be called twice."""
        with self._lock:
            lanes, self._lanes, self._closed = list(self._lanes.values()), {}, True
        for lane in lanes:
            _close(lane)

    async def asearch(self, request: SearchRequest) -> SearchResult:
        """Run `search` in a worker thread; the same engine, the same result."""
        import asyncio

        return await asyncio.to_thread(self.search, request)

    def search(self, request: SearchRequest) -> SearchResult:
        """Answer a request.

        Raises:
            UnknownDomain: the domain is not registered.
            InvalidRequest: a source or option that does not exist, or a threshold no source can be tested on.
            ConfigError: the domain's configuration cannot be used.
            AllSourcesFailed: no source answered; carries the result with every status.
            EvidenceIncomplete: `strict`, and required evidence is missing.
        """
        if not isinstance(request, SearchRequest):
            raise InvalidRequest(f"search takes a SearchRequest(query=..., domain=...), got {type(request).__name__}")
        started = self._clock.monotonic()
        domain = self.registry.domain(request.domain)
        effective = self._resolve(domain, request)
        specs = chosen_sources(domain, effective.values, request)
        now = self._clock.now()
        search_id = self._ids.new(now)
        day = now.astimezone(ZoneInfo(domain.timezone)).date()
        as_of = request.as_of or day
        due = started + effective.values.deadline_s
        prepared = prepared_query(request.query, domain.glossary, effective.values, self._refine_lane)
        sources = [(spec, self._lane(domain, spec)) for spec in specs]
        check_threshold([lane for _, lane in sources if isinstance(lane, Lane)], effective.values)

        def ranked(replies: Sequence[Reply], recall_ms: float) -> Look:
            given = stage_two(
                request,
                effective,
                specs,
                raw_answers(specs, replies),
                now=now,
                as_of=as_of,
                today=as_of >= day,
                search_id=search_id,
                prepared=prepared,
            )
            step = rerank_step(self._rerank_lane, effective.values, lambda: due - self._clock.monotonic())
            return Look(replies, given, rank(given, step, self._clock.monotonic, self._texts.analysed), recall_ms)

        question = Question(domain.domain, request, prepared, effective.values, as_of, search_id)
        look = self._looked(question, sources, ranked, started=started, due=due)
        result = assemble(
            look.given,
            look.ranking,
            request=request,
            settings=effective,
            specs=specs,
            statuses=source_statuses(specs, look.replies),
            recall_ms=look.recall_ms,
        )
        self._report(result)
        return _judged(result)

    def _looked(
        self,
        question: Question,
        sources: Sequence[Asked],
        ranked: Callable[[Sequence[Reply], float], Look],
        *,
        started: float,
        due: float,
    ) -> Look:
        """Ask every source, and once more where the answer is cut short. Refining alone takes from stage 1's time."""
        settings, clock = question.settings, self._clock
        seconds = settings.deadline_s if self._refine_lane is None else due - clock.monotonic()
        replies = ask(question, sources, top_k=settings.stage1_top_k, seconds=seconds, clock=clock)
        first = ranked(replies, (clock.monotonic() - started) * 1000.0)
        if clock.monotonic() >= due:
            return first

        def again(places: Sequence[int], top_k: int) -> list[Reply]:
            left = due - clock.monotonic()
            return ask(question, [sources[place] for place in places], top_k=top_k, seconds=left, clock=clock)

        return second_look(first, settings, again, ranked, clock)

    def _lane(self, domain: DomainSpec, spec: SourceSpec) -> Lane | SourceError:
        """Return the source's lane, opening it on first use; one that cannot be opened is tried again next time."""
        key = (domain.domain, spec.id)
        with self._lock:
            if self._closed:
                raise _closed()
            opening = self._opening.setdefault(key, Lock())
        with opening:
            lane = self._lanes.get(key)
            if lane is not None:
                return lane
            try:
                lane = Lane(spec.id, self._open_source(domain, spec), self._clock)
            except ConfigError:
                raise
            except Exception as error:  # noqa: BLE001  one source that cannot be opened never takes the others down
                return as_source_error(error, spec.id)
            with self._lock:
                if not self._closed:
                    self._lanes[key] = lane
                    return lane
            _close(lane)
            raise _closed()

    def _report(self, result: SearchResult) -> None:
        """Log the funnel in the seed's form (seed 002) and hand the result to the recorder."""
        scores = [chunk.relevance for chunk in result.chunks]
        left = {stage.name: stage.left for stage in result.stages}
        logger.info(
            "RAG pipeline request_id=%s initial_k=%d filtered_k=%d final_k=%d threshold=%.3f fallback=%s reranker=%s "
            "scores_range=[%.3f,%.3f] search_id=%s domain=%s status=%s decision=%s",
            result.request_id, len(result.fates), left.get("scope", 0), len(result.chunks),
            result.settings.values.min_relevance_score,
            any("below_threshold" in chunk.flags for chunk in result.chunks),
            self._reranker.name if self._reranker and result.settings.values.reranking_enabled else "noop",
            min(scores, default=0.0), max(scores, default=0.0),
            result.search_id, result.domain, result.status, result.decision,
        )  # fmt: skip
        for status in result.sources:
            if status.error is not None:
                logger.warning("search %s: %s", result.search_id, status.error["message"])
        if self._recorder is not None:
            try:
                self._recorder.record(result)
            except Exception:
                logger.exception("search %s could not be recorded", result.search_id)


def _closed() -> ContextEngineError:
    return ContextEngineError("the engine is closed: make a new one")


def _close(lane: Lane) -> None:
    try:
        lane.source.close()
    except Exception:
        logger.exception("source %s could not be closed", lane.source_id)


def _judged(result: SearchResult) -> SearchResult:
    if result.status is Status.FAILED:
        reasons = "; ".join(str(status.error["message"]) for status in result.sources if status.error)
        raise AllSourcesFailed(
            f"search {result.search_id}: no source of domain {result.domain!r} answered: {reasons}",
            result=result,
            statuses=result.sources,
        )
    if result.decision is Decision.INCOMPLETE and result.request is not None and result.request.strict:
        known = [str(status.error["message"]) for status in result.sources if status.error]
        raise EvidenceIncomplete(
            f"search {result.search_id}: required evidence is missing: " + "; ".join([*result.warnings, *known]),
            result=result,
            statuses=result.sources,
        )
    return result
