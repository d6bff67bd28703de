"""Metrics of the service in the text format of Prometheus, at `/metrics`, for operators.

They hold no question, no text and no caller. The counts of searches and sources begin anew at a reload.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, Protocol

from fastapi import APIRouter, Request, Response
from prometheus_client import CollectorRegistry, Counter, Histogram, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, Metric

from context_engine import __version__
from context_engine.apps.server.slots import Slots
from context_engine.errors import NotPermitted
from context_engine.service.deployment import LiveDeployment

PATH: Final = "/metrics"
_PREFIX: Final = "context_engine"
_SECONDS: Final = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)
_ELSEWHERE: Final = "other"
_METHODS: Final = ("GET", "HEAD", "POST")


class MeasuredService(Protocol):
    """What is read of a service when its metrics are."""

    live: LiveDeployment
    slots: Slots

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
            buckets=_SECONDS,
            registry=self._registry,
        )
        ProcessCollector(namespace=_PREFIX, registry=self._registry)
        self._registry.register(self)

    def answered(self, scope: Any, status: int, seconds: float) -> None:
        """Count a request.

        Args:
            scope: of ASGI; its route, not its address, is the label.
            status: of the answer; 499 if the caller left without one.
        """
        route = getattr(scope.get("route"), "path", None) or _ELSEWHERE
        method = scope["method"] if scope["method"] in _METHODS else _ELSEWHERE
        self._requests.labels(route, method, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def text(self) -> bytes:
        """Return all metrics in the text format."""
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Metric]:
        """Yield what is read rather than counted here."""
        service, engine = self._service, self._service.live.current.engine
        yield _gauge("info", "The version of the service.", ("version",), {(__version__,): 1})
        yield _gauge("ready", "1 for the state of /readyz.", ("state",), {(service.state,): 1})
        yield _gauge("requests_in_progress", "Requests that hold a slot.", (), {(): service.slots.at_work})
        yield _gauge("requests_waiting", "Requests that wait for a slot.", (), {(): service.slots.waiting})
        left_alone = {key: int(is_open) for key, is_open in engine.left_alone().items()}
        sources = ("domain", "source")
        yield _gauge("source_left_alone", "1 while a slow source is not waited for.", sources, left_alone)
        tally = engine.tally.read()
        labels = ("domain", "status", "decision")
        yield _counter(
            "searches", "Searches, by what the sources did and what may be concluded.", labels, tally.searches
        )
        outcomes = (*sources, "outcome")
        yield _counter("source_calls", "Calls of a source: ok, empty, partial or an error.", outcomes, tally.calls)
        yield _counter("source_seconds", "Seconds that the calls of a source took.", sources, tally.seconds)
        cached = ("domain", "outcome")
        yield _counter("cache_lookups", "Look-ups in the cache of answers: hit or miss.", cached, tally.cache)
        yield _counter("answers", "Answers: answered, or why not.", ("domain", "mode", "outcome"), tally.answers)
        yield _counter("answer_sentences", "Sentences of answers by verdict.", ("domain", "verdict"), tally.sentences)
        yield _counter("model_tokens", "Tokens of chat models.", ("domain", "model", "direction"), tally.tokens)
        yield _counter("model_cost", "What chat models cost.", ("domain", "model", "currency"), tally.costs)


def _gauge(name: str, meaning: str, labels: tuple[str, ...], values: Any) -> Metric:
    return _filled(GaugeMetricFamily(f"{_PREFIX}_{name}", meaning, labels=labels), values)


def _counter(name: str, meaning: str, labels: tuple[str, ...], values: Any) -> Metric:
    return _filled(CounterMetricFamily(f"{_PREFIX}_{name}", meaning, labels=labels), values)


def _filled(family: Any, values: Any) -> Metric:
    for labels, value in sorted(values.items()):
        family.add_metric(labels, value)
    metric: Metric = family
    return metric


router = APIRouter()


@router.get(PATH, include_in_schema=False)
async def metrics(request: Request) -> Response:
    """Return the metrics to an operator."""
    if not request.scope["state"]["caller"].operator:
        raise NotPermitted("the metrics name sources of every domain: they are for the token of an operator")
    return Response(request.app.state.service.metrics.text(), media_type=CONTENT_TYPE_LATEST)
