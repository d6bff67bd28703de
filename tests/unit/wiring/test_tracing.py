"""The tracer of a configuration: none and no texts unless asked for, and masked texts if anything is masked."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from context_engine.adapters.telemetry import names
from context_engine.core.tracing import ChatAsked, Step, Tracer
from context_engine.errors import MissingExtra
from context_engine.wiring import build
from context_engine.wiring.setup import load_setup

ASKED = ChatAsked("m", [("user", "Write to ana@bank.example.")], 100, 0.0)


@pytest.fixture
def exporter(monkeypatch: pytest.MonkeyPatch) -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(build, "_provider", lambda: provider)
    return exporter


def opened(folder: Path, **settings: Any) -> Tracer | None:
    for name in ("config", "manifests"):
        (folder / name).mkdir(exist_ok=True)
    (folder / "config/rag-pipeline.json").write_text(json.dumps(settings), "utf-8")
    (folder / "manifests/orm.yaml").write_text(
        json.dumps({"version": 1, "domain": "ORM", "sources": [{"id": "s", "type": "bank_sop"}]}), "utf-8"
    )
    return build.open_tracer(load_setup(config_dir=folder, env={"HOME": str(folder)}, cwd=folder))


def shown(tracer: Tracer | None, exporter: InMemorySpanExporter) -> Any:
    """Return the question that a span of the tracer shows; None for none."""
    assert tracer is not None
    span = tracer.begin(Step.CHAT, "m", {})
    span.tell(ASKED)
    span.end()
    (finished,) = exporter.get_finished_spans()
    assert (finished.attributes or {})[names.MAX_TOKENS] == 100
    return (finished.attributes or {}).get("llm.input_messages.0.message.content")


def test_off_is_the_default(tmp_path: Path) -> None:
    assert opened(tmp_path) is None
    assert opened(tmp_path, trace_content=True) is None


def test_texts_are_shown_on_request(tmp_path: Path, exporter: InMemorySpanExporter) -> None:
    assert shown(opened(tmp_path, tracing=True), exporter) is None
    exporter.clear()
    assert shown(opened(tmp_path, tracing=True, trace_content=True), exporter) == ASKED.messages[0][1]


@pytest.mark.parametrize("key", ["mask_contexts", "mask_stored_queries", "mask_logs"])
def test_texts_are_masked_if_anything_is(tmp_path: Path, exporter: InMemorySpanExporter, key: str) -> None:
    text = shown(opened(tmp_path, tracing=True, trace_content=True, **{key: True}), exporter)
    assert text.startswith("Write to ") and "ana@bank.example" not in text


def test_a_missing_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [name for name in sys.modules if name.startswith("context_engine.adapters.telemetry")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)
    with pytest.raises(MissingExtra) as caught:
        opened(tmp_path, tracing=True)
    assert caught.value.extra == "otel"
