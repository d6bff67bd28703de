"""The tracer of a configuration; the provider that sends its spans is one per process."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from context_engine.core.tracing import Tracer
from context_engine.errors import MissingExtra

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from context_engine.wiring.setup import Setup


def open_tracer(setup: Setup) -> Tracer | None:
    """Return the tracer that the settings ask for; None if they ask for none.

    Raises:
        MissingExtra: the extra `otel` is not installed.
    """
    settings = setup.resolver.base().values
    if not settings.tracing:
        return None
    try:
        from context_engine.adapters.telemetry import OpenTelemetryTracer
    except ImportError as error:
        raise MissingExtra("tracing", "otel") from error
    masks = setup.masking().on
    show = None if not settings.trace_content else setup.mask() if masks else str
    return OpenTelemetryTracer(_provider(), show)


@lru_cache(1)
def _provider() -> TracerProvider:
    from context_engine.adapters.telemetry import exporting_provider

    return exporting_provider()
