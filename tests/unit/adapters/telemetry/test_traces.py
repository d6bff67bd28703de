"""Traces of a service over the SDK: what is nested in what, what spans say, and what they keep to themselves."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from fastapi.testclient import TestClient
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from context_engine.adapters.telemetry import OpenTelemetryTracer, names
from context_engine.core.models import SearchRequest
from context_engine.errors import UnknownDomain
from context_engine.service.deployment import Deployment
from tests.chat_server import ChatServer, openai_stream
from tests.unit.service.small_bank import CLERK, as_, client_of, small_bank

ASKED = "Within how many hours must a loss event be reported?"
TRUE = "A loss event must be reported within 24 hours [1]. "
PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
STEPS = ["filter", "as_of", "expiry", "measure", "dedup", "threshold", "scope", "relevance", "rerank", "select"]


class Traced(NamedTuple):
    """A bank with a chat model, whose engine's traces are kept in memory."""

    bank: Deployment
    client: TestClient
    chat_server: ChatServer
    exporter: InMemorySpanExporter
    provider: TracerProvider

    def spans(self) -> list[ReadableSpan]:
        """Return the spans since the last call, as they began."""
        spans = sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)
        self.exporter.clear()
        return spans

    def show(self, show: Any) -> None:
        """Begin traces anew with what texts are shown."""
        self.bank.engine.tracer = OpenTelemetryTracer(self.provider, show)


@pytest.fixture(scope="module")
def opened(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Traced]:
    folder: Path = tmp_path_factory.mktemp("bank")
    with ChatServer() as chat_server:
        (folder / "config").mkdir()
        connection = {"chat": {"base_url": chat_server.url, "api_key": "sk-secret"}}
        (folder / "config/connections.yaml").write_text(json.dumps(connection))
        model = {"chat_model": "openai", "chat_model_options": {"connection": "chat", "model": "bank-chat"}}
        bank = small_bank(folder, settings={"models": model, "audit": {"audit_mode": "off"}})
        exporter, provider = InMemorySpanExporter(), TracerProvider()
        provider.add_span_processor(SimpleSpanProcessor(exporter))
        with client_of(bank) as client:
            yield Traced(bank, client, chat_server, exporter, provider)
        bank.close()


@pytest.fixture
def traced(opened: Traced) -> Traced:
    opened.show(None)
    opened.exporter.clear()
    opened.chat_server.requests.clear()
    return opened


def answer(traced: Traced, **headers: str) -> Any:
    traced.chat_server.will(openai_stream(TRUE, usage=(900, 40)))
    body = {"query": ASKED, "domain": "ORM"}
    given = traced.client.post("/api/v1/rag/answer", json=body, headers={**as_(CLERK), **headers})
    assert given.status_code == 200
    return given.json()


def named(spans: Sequence[ReadableSpan], name: str) -> ReadableSpan:
    (span,) = [span for span in spans if span.name == name]
    return span


def attributes(span: ReadableSpan) -> dict[str, Any]:
    return dict(span.attributes or {})


def nested(spans: Sequence[ReadableSpan]) -> Any:
    """Return {name: names of its children} in the order of their beginning."""
    named = {span.context.span_id: span.name for span in spans if span.context is not None}
    tree: dict[str, list[str]] = {}
    for span in spans:
        parent = named.get(span.parent.span_id, "") if span.parent is not None else ""
        tree.setdefault(parent, []).append(span.name)
    return tree


def test_an_answer_is_one_trace_that_continues_the_callers(traced: Traced) -> None:
    answer(traced, traceparent=PARENT)
    spans = traced.spans()
    request, source = "POST /api/v1/rag/answer", "retrieval sops, web"
    assert nested(spans) == {
        "": [request],
        request: ["answer ORM"],
        "answer ORM": ["retrieval ORM", "chat bank-chat"],
        "retrieval ORM": ["stage recall", *(f"stage {step}" for step in STEPS)],
        "stage recall": [source],
    }
    assert {f"{span.context.trace_id:032x}" for span in spans if span.context} == {PARENT[3:35]}
    root = named(spans, request)
    assert root.parent is not None and f"{root.parent.span_id:016x}" == PARENT[36:52]
    kinds = {span.name: span.kind for span in spans if span.kind is not SpanKind.INTERNAL}
    assert kinds == {request: SpanKind.SERVER, source: SpanKind.CLIENT, "chat bank-chat": SpanKind.CLIENT}
    assert attributes(root)[names.STATUS_CODE] == 200
    assert all(span.status.status_code is not StatusCode.ERROR for span in spans)


TOOL_CALL = {"name": "search", "arguments": {"question": ASKED, "domain": "ORM"}}
ROADS = {
    "/api/v1/rag/query": {"query": ASKED, "domain": "ORM"},
    "/retrieval": {"knowledge_id": "ORM", "query": ASKED, "retrieval_setting": {"top_k": 3, "score_threshold": 0.0}},
    "/mcp": {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": TOOL_CALL},
}


@pytest.mark.parametrize("road", ROADS)
def test_a_search_belongs_to_its_request_on_every_road(traced: Traced, road: str) -> None:
    headers = {**as_(CLERK), "Host": "localhost", "Accept": "application/json, text/event-stream"}
    assert traced.client.post(road, json=ROADS[road], headers=headers).status_code == 200
    tree = nested(traced.spans())
    assert tree[""] == [f"POST {road}"]
    assert tree[f"POST {road}"] == ["retrieval ORM"]


def test_the_chat_models_server_is_told_the_trace(traced: Traced) -> None:
    answer(traced, traceparent=PARENT, tracestate="bank=1")
    chat = named(traced.spans(), "chat bank-chat")
    (request,) = traced.chat_server.requests
    assert chat.context is not None
    assert request.headers["traceparent"] == f"{PARENT[:35]}-{chat.context.span_id:016x}-01"
    assert request.headers["tracestate"] == "bank=1"


def test_without_a_setting_spans_hold_ids_and_numbers_and_no_text(traced: Traced) -> None:
    given = answer(traced)
    spans = traced.spans()
    text = " ".join(span.to_json() for span in spans)
    for content in (ASKED, "24 hours", "loss event", "Late reports", "sk-secret", CLERK.id):
        assert content not in text
    search = attributes(named(spans, "retrieval ORM"))
    assert search[names.SPAN_KIND] == "RETRIEVER" and search[names.OPERATION] == "retrieval"
    assert search[names.DATA_SOURCE] == "ORM" and search[names.TOP_K] == 8.0
    assert search[names.DECISION] == "answered" and search[names.STATUS] == "complete"
    assert search[names.SEARCH_ID] == given["search_id"]
    metadata = json.loads(search["retrieval.documents.0.document.metadata"])
    assert search["retrieval.documents.0.document.id"] and 0.0 < search["retrieval.documents.0.document.score"] <= 0.76
    assert (metadata["source_id"], metadata["authority_tier"]) == ("sops", 2)
    chat = attributes(named(spans, "chat bank-chat"))
    assert chat[names.SPAN_KIND] == "LLM" and chat[names.REQUEST_MODEL] == "bank-chat"
    assert (chat[names.INPUT_TOKENS], chat[names.OUTPUT_TOKENS], chat[names.TOTAL_TOKENS]) == (900, 40, 900 + 40)
    assert chat[names.FINISH_REASONS] == ("stop",)
    rerank = attributes(named(spans, "stage rerank"))
    assert rerank[names.SPAN_KIND] == "RERANKER" and rerank[names.ENTERED] >= rerank[names.LEFT] > 0


def test_with_the_setting_they_hold_the_texts(traced: Traced) -> None:
    traced.show(str)
    answer(traced)
    spans = traced.spans()
    search, chat = attributes(named(spans, "retrieval ORM")), attributes(named(spans, "chat bank-chat"))
    assert search[names.INPUT] == search[names.QUERY_TEXT] == ASKED
    assert "within 24 hours" in search["retrieval.documents.0.document.content"]
    assert chat["llm.input_messages.0.message.role"] == "system"
    assert "within 24 hours" in chat["llm.input_messages.0.message.content"]
    assert chat["llm.input_messages.1.message.content"] == ASKED
    assert chat["llm.output_messages.0.message.content"] == TRUE
    whole = attributes(named(spans, "answer ORM"))
    assert (whole[names.INPUT], whole[names.OUTPUT]) == (ASKED, "A loss event must be reported within 24 hours.")


def test_texts_are_shown_as_the_mask_returns_them(traced: Traced) -> None:
    traced.show(lambda text: text.replace("24 hours", "TIME_1"))
    answer(traced)
    text = " ".join(span.to_json() for span in traced.spans())
    assert "TIME_1" in text and "24 hours" not in text


def test_a_mask_that_fails_costs_the_attributes_and_not_the_answer(traced: Traced) -> None:
    def broken(_text: str) -> str:
        raise RuntimeError("no mask")

    traced.show(broken)
    assert answer(traced)["sentences"]
    text = " ".join(span.to_json() for span in traced.spans())
    assert "24 hours" not in text


def test_an_error_is_named_by_its_code(traced: Traced) -> None:
    with pytest.raises(UnknownDomain):
        traced.bank.engine.search(SearchRequest(query=ASKED, domain="NONE", principal=CLERK))
    (span,) = traced.spans()
    assert (span.name, span.status.status_code) == ("retrieval NONE", StatusCode.ERROR)
    assert attributes(span)[names.ERROR_TYPE] == UnknownDomain.code
    assert not span.events and not span.status.description


def test_a_provider_of_the_program_sees_its_own_span_as_the_parent(traced: Traced) -> None:
    with traced.provider.get_tracer("bank").start_as_current_span("job"):
        traced.bank.engine.search(SearchRequest(query=ASKED, domain="ORM", principal=CLERK))
    assert nested(traced.spans())["job"] == ["retrieval ORM"]


def test_health_and_metrics_are_not_shown(traced: Traced) -> None:
    assert traced.client.get("/healthz").status_code == 200
    assert traced.spans() == []
