"""Traces by OpenTelemetry; needs the extra `otel`."""

from context_engine.adapters.telemetry.tracer import OpenTelemetryTracer, exporting_provider

__all__ = ["OpenTelemetryTracer", "exporting_provider"]
