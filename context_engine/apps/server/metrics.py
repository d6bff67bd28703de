"""Metrics of the service in the text format of Prometheus, at `/metrics`, for operators.

They hold no question, no text and no caller. The counts of searches and sources begin anew at a reload.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from itertools import accumulate
from typing import Any, Final, Protocol

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.parser import text_string_to_metric_families

from context_engine import __version__
from context_engine.adapters.http.client import budgets_left
from context_engine.apps.server.limits import Rates
from context_engine.apps.server.quality import QualityCheck
from context_engine.apps.server.slots import Slots
from context_engine.core.engine import Engine
from context_engine.core.engine.events import SECONDS, Durations
from context_engine.core.models import Settings
from context_engine.errors import NotPermitted
from context_engine.insight.quality_watch import QualityLine
from context_engine.service.deployment import LiveDeployment
from context_engine.wiring.audit_writers import lost_records, pending_records
from context_engine.wiring.events import waiting_events

PATH: Final = "/metrics"
_PREFIX: Final = "context_engine"
_ELSEWHERE: Final = "other"
_METHODS: Final = ("GET", "HEAD", "POST")


class MeasuredService(Protocol):
    """What is read of a service when its metrics are."""

    live: LiveDeployment
    slots: Slots
    rates: Rates
    quality: QualityCheck

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        ...

    @property
    def state(self) -> str:
        """The state that `/readyz` knows."""
        ...


class Metrics:
    """The counts of a service.

    Args:
        service: whose slots, readiness and engine are read when the metrics are.
    """

    def __init__(self, service: MeasuredService) -> None:
        self._service, self._registry = service, CollectorRegistry()
        self._requests = Counter(
            f"{_PREFIX}_requests",
            "Requests answered, by the route and the status of the answer.",
            ("route", "method", "status"),
            registry=self._registry,
        )
        self._seconds = Histogram(
            f"{_PREFIX}_request_seconds",
            "Seconds from the head of a request to its answer, waiting included.",
            ("route",),
            buckets=SECONDS,
            registry=self._registry,
        )
        ProcessCollector(namespace=_PREFIX, registry=self._registry)
        self._registry.register(self)

    def answered(self, scope: Any, status: int, seconds: float) -> tuple[str, str]:
        """Count a request; return the method and the route that name it.

        Args:
            scope: of ASGI; its route, not its address, is the label.
            status: of the answer; 499 if the caller left without one.
        """
        route = getattr(scope.get("route"), "path", None) or _ELSEWHERE
        method = scope["method"] if scope["method"] in _METHODS else _ELSEWHERE
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)
        return method, route

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield what is read rather than counted here."""
        service = self._service
        yield _gauge("info", "The version of the service.", ("version",), {(__version__,): 1})
        yield _gauge("ready", "1 for the state of /readyz.", ("state",), {(service.state,): 1})
        yield _gauge("requests_in_progress", "Requests that hold a slot.", (), {(): service.slots.at_work})
        yield _gauge("requests_waiting", "Requests that wait for a slot.", (), {(): service.slots.waiting})
        least = service.rates.least(service.settings)
        requests = {} if least is None else {(): least}
        yield _gauge("rate_budget_left", "Requests left at once to the caller with the fewest.", (), requests)
        calls = {(host,): left for host, left in budgets_left(time.monotonic()).items()}
        yield _gauge("connection_budget_left", "Calls left in this minute to a host with a limit.", ("host",), calls)
        yield _gauge("records_pending", "Records that wait to be written.", (), {(): pending_records()})
        yield _counter("records_lost", "Records that were never written.", (), {(): lost_records()})
        deployment = service.live.current
        waiting = waiting_events(deployment.setup, deployment.data_dir)
        yield _gauge("events_waiting", "Events that wait for their delivery to a web hook.", (), {(): waiting})
        engine = deployment.engine
        yield from _of_sources(engine)
        yield from _of_searches(engine)
        yield from _of_quality(service.quality.lines())


_SOURCE: Final = ("domain", "source")


def _of_sources(engine: Engine) -> Iterator[Metric]:
    tally, left_alone = engine.tally.read(), {key: int(is_open) for key, is_open in engine.left_alone().items()}
    yield _gauge("source_left_alone", "1 while a slow source is not waited for.", _SOURCE, left_alone)
    recall = engine.watched_recall()
    yield _gauge("source_ann_recall", "Recall of approximate searches, 0 to 1, by samples.", _SOURCE, recall)
    outcomes = (*_SOURCE, "outcome")
    yield _counter("source_calls", "Calls of a source: ok, empty, partial or an error.", outcomes, tally.calls)
    seconds = {key: durations.seconds for key, durations in tally.durations.items()}
    yield _counter("source_seconds", "Seconds that the calls of a source took.", _SOURCE, seconds)
    yield _histogram("source_call_seconds", "Seconds of each call of a source.", _SOURCE, tally.durations)


def _of_searches(engine: Engine) -> Iterator[Metric]:
    tally, outcomes = engine.tally.read(), ("domain", "status", "decision")
    yield _counter("searches", "Searches, by what the sources did and what may be concluded.", outcomes, tally.searches)
    yield _counter("stage_seconds", "Seconds of each stage of the searches.", ("domain", "stage"), tally.stages)
    ages = ("domain", "tier", "freshness")
    yield _counter("chunks_returned", "Chunks returned, by authority tier and freshness.", ages, tally.chunks)
    yield _counter("answers", "Answers: answered, or why not.", ("domain", "mode", "outcome"), tally.answers)
    yield _counter("answer_sentences", "Sentences of answers by verdict.", ("domain", "verdict"), tally.sentences)
    yield _counter("model_tokens", "Tokens of chat models.", ("domain", "model", "direction"), tally.tokens)
    yield _counter("model_cost", "What chat models cost.", ("domain", "model", "currency"), tally.costs)
    cached = ("domain", "outcome")
    yield _counter("cache_lookups", "Look-ups in the cache of answers: hit or miss.", cached, tally.cache)


_FIGURE: Final = ("domain", "figure")


def _of_quality(lines: Sequence[QualityLine]) -> Iterator[Metric]:
    shares = {(line.domain, line.figure): line.recent.share for line in lines}
    yield _gauge("quality_share", "Share of bad outcomes among the last hundred, 0 to 1.", _FIGURE, shares)
    past = {(line.domain, line.figure): line.past.share for line in lines}
    yield _gauge("quality_past_share", "Share of bad outcomes in the past, 0 to 1.", _FIGURE, past)
    alarmed = {(line.domain, line.figure): int(line.alarmed) for line in lines}
    yield _gauge("quality_alarm", "1 while a share is above its past.", _FIGURE, alarmed)
    alarms = {(line.domain, line.figure): len(line.excursions) for line in lines}
    yield _counter("quality_alarms", "Alarms since the past begins.", _FIGURE, alarms)


def _gauge(name: str, meaning: str, labels: tuple[str, ...], values: Any) -> Metric:
    return _filled(GaugeMetricFamily(f"{_PREFIX}_{name}", meaning, labels=labels), values)


def _counter(name: str, meaning: str, labels: tuple[str, ...], values: Any) -> Metric:
    return _filled(CounterMetricFamily(f"{_PREFIX}_{name}", meaning, labels=labels), values)


def _histogram(name: str, meaning: str, labels: tuple[str, ...], values: dict[Any, Durations]) -> Metric:
    family = HistogramMetricFamily(f"{_PREFIX}_{name}", meaning, labels=labels)
    bounds = [*map(str, SECONDS), "+Inf"]
    for key, durations in sorted(values.items()):
        family.add_metric(key, list(zip(bounds, accumulate(durations.counts))), durations.seconds)
    return family


def _filled(family: Any, values: Any) -> Metric:
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    metric: Metric = family
    return metric


_EVERY_S: Final = 5.0
"""Seconds between the reports of a worker."""


class MetricsOfWorkers:
    """The latest metrics of each worker in the text format; processes share it. Thread-safe."""

    def __init__(self) -> None:
        self._texts: dict[int, bytes] = {}

    def put(self, worker: int, text: bytes) -> None:
        """Replace the metrics of a worker."""
        self._texts[worker] = text

    def drop(self, worker: int) -> None:
        """Forget the metrics of a worker that ended."""
        self._texts.pop(worker, None)

    def all(self) -> dict[int, bytes]:
        """Return the metrics by worker."""
        return dict(self._texts)


class WorkerReports:
    """Reports the metrics of one worker to all, and returns those of all.

    Args:
        number: of this worker; 1 for the first.
        shared: where every worker reports.
    """

    def __init__(self, number: int, shared: MetricsOfWorkers) -> None:
        self._number, self._shared = number, shared

    @property
    def of_first(self) -> bool:
        """Whether this is the worker that does what one of them shall do."""
        return self._number == 1

    def text(self, own: bytes) -> bytes:
        """Return the metrics of all workers, with a label `worker`; those of others are some seconds old."""
        self._shared.put(self._number, own)
        families: dict[str, Metric] = {}
        for worker, text in sorted(self._shared.all().items()):
            for family in text_string_to_metric_families(text.decode()):
                joined = families.setdefault(family.name, Metric(family.name, family.documentation, family.type))
                joined.samples += [
                    sample._replace(labels={**sample.labels, "worker": str(worker)}) for sample in family.samples
                ]
        return generate_latest(_Families(families))

    async def go_on(self, metrics: Metrics) -> None:
        """Report every few seconds."""
        while True:
            with suppress(OSError, EOFError):  # the supervisor is gone, and this worker stops
                await asyncio.to_thread(self._shared.put, self._number, metrics.text())
            await asyncio.sleep(_EVERY_S)


class _Families(CollectorRegistry):
    """Families of metrics that were read."""

    def __init__(self, families: Mapping[str, Metric]) -> None:
        super().__init__()
        self._families = families

    def collect(self) -> Iterator[Metric]:
        """Yield them."""
        yield from self._families.values()


@asynccontextmanager
async def reporting(service: ReportingService) -> AsyncIterator[None]:
    """Let a worker report its metrics for as long as the block lasts; a service that is none reports nothing."""
    if service.reports is None:
        yield
        return
    task = asyncio.create_task(service.reports.go_on(service.metrics))
    try:
        yield
    finally:
        task.cancel()


class ReportingService(Protocol):
    """A service that may be one of several workers."""

    metrics: Metrics
    reports: WorkerReports | None


router = APIRouter()


@router.get(PATH, include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return the metrics to an operator."""
    if not request.scope["state"]["caller"].operator:
        raise NotPermitted("the metrics name sources of every domain: they are for the token of an operator")
    service: ReportingService = request.app.state.service
    text = service.metrics.text()
    if service.reports is not None:
        text = await asyncio.to_thread(service.reports.text, text)
    return Response(text, media_type=CONTENT_TYPE_LATEST)
