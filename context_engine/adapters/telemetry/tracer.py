"""A tracer over the OpenTelemetry SDK, and the provider that sends spans over OTLP/HTTP.

The SDK sends from a thread of its own out of a bounded queue: a collector that is slow or gone costs spans, and neither
a search nor its time. What goes wrong in telling a span something is logged for developers, and the work goes on.
"""

from __future__ import annotations

import atexit
import logging
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager
from functools import wraps
from typing import Any, Concatenate, Final, ParamSpec

from opentelemetry.context import Context
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, SERVICE_VERSION, Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, set_span_in_context, use_span
from opentelemetry.trace import Tracer as SdkTracer
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from context_engine import __version__
from context_engine.adapters.telemetry import names
from context_engine.adapters.telemetry.attributes import (
    Show,
    attributes_of,
    attributes_of_step,
    error_type,
    span_name,
    written_by_model,
)
from context_engine.core.concurrency.calls import Busy, DeadlineExceeded, call_within
from context_engine.core.models import ChatPart
from context_engine.core.tracing import HttpAnswered, Step

logger = logging.getLogger(__name__)
_AT_EXIT_S: Final = 2.0
_NAME: Final = "context-engine"
_KINDS: Final = {Step.REQUEST: SpanKind.SERVER, Step.SOURCE: SpanKind.CLIENT, Step.CHAT: SpanKind.CLIENT}
_PROPAGATOR: Final = TraceContextTextMapPropagator()
P = ParamSpec("P")


class OpenTelemetryTracer:
    """Begins traces with a provider of the SDK; a `Tracer`.

    Args:
        provider: your own, or that of `exporting_provider`.
        show: returns a question, passage, prompt or answer as spans may hold it; None: they hold none.
    """

    def __init__(self, provider: TracerProvider, show: Show | None = None) -> None:
        self._sdk = provider.get_tracer(_NAME, __version__, schema_url=names.SCHEMA_URL)
        self._show = show

    def begin(self, step: Step, name: str, headers: Mapping[str, str]) -> _Span:
        """Begin a trace, or continue that of the headers, or of the current span of the SDK."""
        parent = _PROPAGATOR.extract(headers) if headers else None
        return _Span(self._sdk, self._show, step, name, parent)


def _guarded(method: Callable[Concatenate[_Span, P], None]) -> Callable[Concatenate[_Span, P], None]:
    """Log what a method raises: telling of the work must not end it."""

    @wraps(method)
    def guarded(span: _Span, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(span, *args, **kwargs)
        except Exception:
            logger.debug("a span is incomplete", exc_info=True)

    return guarded


class _Span:
    def __init__(self, sdk: SdkTracer, show: Show | None, step: Step, name: str, parent: Context | None) -> None:
        self._sdk, self._show = sdk, show
        self._written: list[str] = []
        self._span: Span = sdk.start_span(
            span_name(step, name),
            parent,
            kind=_KINDS.get(step, SpanKind.INTERNAL),
            attributes=attributes_of_step(step, name),
            record_exception=False,
            set_status_on_exception=False,
        )

    def child(self, step: Step, name: str) -> _Span:
        return _Span(self._sdk, self._show, step, name, set_span_in_context(self._span))

    @_guarded
    def tell(self, fact: object) -> None:
        if not self._span.is_recording():
            return
        if isinstance(fact, ChatPart) and fact.text and self._show is not None:
            self._written.append(fact.text)
        attributes = attributes_of(fact, self._show)
        self._span.set_attributes(attributes)
        if names.ERROR_TYPE in attributes:
            self._span.set_status(Status(StatusCode.ERROR))
        if isinstance(fact, HttpAnswered):
            self._span.update_name(f"{fact.method} {fact.route}")

    def headers(self) -> Mapping[str, str]:
        carrier: dict[str, str] = {}
        _PROPAGATOR.inject(carrier, set_span_in_context(self._span))
        return carrier

    def active(self) -> AbstractContextManager[Any]:
        return use_span(self._span, record_exception=False, set_status_on_exception=False)

    @_guarded
    def end(self, error: BaseException | None = None) -> None:
        if error is not None:
            self._span.set_attribute(names.ERROR_TYPE, error_type(error))
            self._span.set_status(Status(StatusCode.ERROR))
        if self._written and self._show is not None:
            self._span.set_attributes(written_by_model("".join(self._written), self._show))
        self._span.end()


def exporting_provider() -> TracerProvider:
    """Return a provider that sends spans over OTLP/HTTP, as the standard variables `OTEL_*` say.

    At the end of the process it sends the last spans, for at most two seconds.
    """
    logging.getLogger("opentelemetry").addHandler(logging.NullHandler())  # as for this package: the program decides
    resource = Resource.create()
    if str(resource.attributes[SERVICE_NAME]).startswith("unknown_service"):
        resource = resource.merge(Resource({SERVICE_NAME: _NAME, SERVICE_VERSION: __version__}))
    provider = TracerProvider(resource=resource, shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    atexit.register(_shut_down, provider)
    return provider


def _shut_down(provider: TracerProvider) -> None:
    try:
        call_within(_AT_EXIT_S, provider.shutdown, name="context-engine-traces")
    except (Busy, DeadlineExceeded):
        logger.warning("the last spans could not be sent within %g s", _AT_EXIT_S)
