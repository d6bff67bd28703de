"""`/metrics`: what is counted, for whom, and that it names no question and no caller."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from context_engine.adapters.http.client import shared_budget
from context_engine.apps.server import metrics as metrics_module
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.apps.server.slots import Slots
from context_engine.core.engine.recall import SourceBulkhead
from context_engine.core.engine.source_pool import SourcePool
from context_engine.service.deployment import Deployment, LiveDeployment
from tests.unit.service.small_bank import AUDITOR, CLERK, QUESTION, Tokens, as_, small_bank


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    folder: Path = tmp_path_factory.mktemp("bank")
    deployment = small_bank(folder, settings={"audit": {"audit_mode": "off"}, "search": {"cache_ttl_s": 300.0}})
    yield deployment
    deployment.close()


@pytest.fixture
def client(bank: Deployment) -> Iterator[TestClient]:
    with TestClient(create_app(Service(LiveDeployment(lambda: bank), Tokens(), threads=4))) as client:
        yield client


def read(client: TestClient) -> dict[tuple[str, tuple[str, ...]], float]:
    """Return each sample by its name and the values of its labels, in the order of their names."""
    answer = client.get("/metrics", headers=as_(AUDITOR))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert QUESTION not in answer.text and CLERK.id not in answer.text
    return {
        (
            sample.name.removeprefix("context_engine_"),
            tuple(sample.labels[name] for name in sorted(sample.labels)),
        ): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def ask(client: TestClient, **fields: Any) -> int:
    body = {"query": QUESTION, "settings": {"cache_ttl_s": 0.0}, **fields}
    return client.post("/api/v1/rag/query", json=body, headers=as_(CLERK)).status_code


def test_requests_are_counted_by_route_and_status(client: TestClient) -> None:
    assert [ask(client), ask(client), ask(client, top_k=0)] == [200, 200, 422]
    assert client.get("/no/such/address/4711").status_code == 404
    values = read(client)
    assert values["requests_total", ("POST", "/api/v1/rag/query", "200")] == 2
    assert values["requests_total", ("POST", "/api/v1/rag/query", "422")] == 1
    assert values["requests_total", ("GET", "other", "404")] == 1  # no label holds an address that somebody made up
    assert values["request_seconds_count", ("/api/v1/rag/query",)] == 3
    assert values["requests_in_progress", ()] == values["requests_waiting", ()] == 0
    assert values["process_resident_memory_bytes", ()] > 1e6


def test_searches_and_their_sources_are_counted(client: TestClient, bank: Deployment) -> None:
    before = bank.engine.tally.read()
    assert ask(client) == 200
    assert ask(client, query="zebra crossing in Vienna") == 200
    after = bank.engine.tally.read()
    assert sum(after.searches.values()) - sum(before.searches.values()) == 2
    values = read(client)
    for (domain, status, decision), count in after.searches.items():
        assert values["searches_total", (decision, domain, status)] == count
    for (domain, source, outcome), count in after.calls.items():
        assert values["source_calls_total", (domain, outcome, source)] == count
        assert values["source_seconds_total", (domain, source)] == after.durations[domain, source].seconds > 0
        assert values["source_left_alone", (domain, source)] == 0


def test_look_ups_in_the_cache_are_counted(client: TestClient) -> None:
    for settings in ({}, {}, {}, {"cache_ttl_s": 0.0}):
        assert ask(client, settings=settings) == 200
    values = read(client)
    assert values["cache_lookups_total", ("ORM", "miss")] == 1
    assert values["cache_lookups_total", ("ORM", "hit")] == 2


def test_a_source_that_is_left_alone_is_shown(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(client) == 200
    monkeypatch.setattr(SourceBulkhead, "is_left_alone", property(lambda source: source.source_id == "web"))
    left = {labels[1]: value for (name, labels), value in read(client).items() if name == "source_left_alone"}
    assert left["web"] == 1
    assert {value for source, value in left.items() if source != "web"} == {0}


def test_stages_chunks_and_durations_are_counted(client: TestClient, bank: Deployment) -> None:
    assert ask(client) == 200
    counts, values = bank.engine.tally.read(), read(client)
    assert {stage for _, stage in counts.stages} >= {"recall", "dedup", "relevance", "rerank", "select"}
    assert all(values["stage_seconds_total", key] == seconds for key, seconds in counts.stages.items())
    for (domain, tier, freshness), count in counts.chunks.items():
        assert values["chunks_returned_total", (domain, freshness, tier)] == count
    for (domain, source), durations in counts.durations.items():
        calls = sum(durations.counts)
        assert values["source_call_seconds_bucket", (domain, "+Inf", source)] == calls
        assert values["source_call_seconds_count", (domain, source)] == calls
        assert values["source_call_seconds_bucket", (domain, "0.01", source)] == durations.counts[0]


def test_the_rate_budget_is_shown(client: TestClient, bank: Deployment) -> None:
    assert read(client)["rate_budget_left", ()] == bank.settings.server_rate_burst


def test_calls_left_to_a_server_are_shown_by_its_host_alone(client: TestClient) -> None:
    now = time.monotonic()
    for key, made in (("first key", 2), ("second key", 5)):
        for _ in range(made):
            shared_budget("https://kb.bank.example/path", key).take(60, now, now)
    values = read(client)
    assert values["connection_budget_left", ("kb.bank.example",)] == 60 - 5


def test_events_that_wait_are_counted(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "waiting_events", lambda _setup, _data_dir: 4)
    assert read(client)["events_waiting", ()] == 4


def test_records_that_wait_or_were_lost_are_counted(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metrics_module, "pending_records", lambda: 3)
    monkeypatch.setattr(metrics_module, "lost_records", lambda: 2)
    values = read(client)
    assert (values["records_pending", ()], values["records_lost_total", ()]) == (3, 2)


def test_watched_recall_is_shown(client: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert ask(client) == 200
    assert not [name for name, _ in read(client) if name == "source_ann_recall"]
    monkeypatch.setattr(SourcePool, "watched_recall", lambda _: {("ORM", "sops"): 0.97})
    assert read(client)["source_ann_recall", ("ORM", "sops")] == 0.97


def test_operators_alone_read_them(client: TestClient) -> None:
    assert client.get("/metrics").status_code == 401
    assert client.get("/metrics", headers=as_(CLERK)).json()["code"] == "not_permitted"


TOOL_CALL = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "tools/call",
    "params": {"name": "search", "arguments": {"question": QUESTION, "domain": "ORM"}},
}
ROADS = {
    "/api/v1/rag/query": {"query": QUESTION, "domain": "ORM"},
    "/api/v1/dify/search": {"parameters": {"query": QUESTION, "domain_name": "ORM"}},
    "/retrieval": {"knowledge_id": "ORM", "query": QUESTION, "retrieval_setting": {"top_k": 3, "score_threshold": 0.0}},
    "/mcp": TOOL_CALL,
}


@pytest.mark.parametrize("road", ROADS)
def test_a_search_takes_a_slot_of_its_domain_on_every_road(
    client: TestClient, road: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    domains, take = [], Slots.take

    async def noted(
        slots: Slots, caller: str = "", *, domain: str | None = None, patience_s: float | None = None
    ) -> bool:
        domains.append(domain)
        return await take(slots, caller, domain=domain, patience_s=patience_s)

    monkeypatch.setattr(Slots, "take", noted)
    headers = {**as_(CLERK), "Host": "localhost", "Accept": "application/json, text/event-stream"}
    answer = client.post(road, json=ROADS[road], headers=headers)
    assert answer.status_code == 200, answer.text
    assert domains == ["ORM"]


def test_the_metrics_of_workers_stand_beside_each_other() -> None:
    shared = metrics_module.MetricsOfWorkers()
    one, two = (metrics_module.WorkerReports(number, shared) for number in (1, 2))
    counted = '# HELP asked_total Asked.\n# TYPE asked_total counter\nasked_total{route="/a"} %d\n'
    assert one.text((counted % 3).encode()).decode().splitlines()[-1] == 'asked_total{route="/a",worker="1"} 3.0'
    lines = two.text((counted % 5).encode()).decode().splitlines()
    assert lines == [
        "# HELP asked_total Asked.",
        "# TYPE asked_total counter",
        'asked_total{route="/a",worker="1"} 3.0',
        'asked_total{route="/a",worker="2"} 5.0',
    ]
    shared.drop(1)
    assert 'worker="1"' not in two.text((counted % 6).encode()).decode()
