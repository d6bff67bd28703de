"""How calls to OpenSearch are authorised, and what its refusals mean."""

from __future__ import annotations

import base64
from collections.abc import Callable
from typing import Any

import httpx
import pytest
import respx

from context_engine.adapters.sources.opensearch import server
from context_engine.adapters.sources.opensearch.server import Calls, OpenSearchServer, SearchBody
from context_engine.core.engine.search_plan import SystemClock
from context_engine.errors import (
    SourceAuthError,
    SourceBusy,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceTimeout,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection

BASE = "http://search.bank.example:9200"
FULL = "index [notes-1] blocked by: [TOO_MANY_REQUESTS/12/index has read-only-allow-delete block]"
HIT = {"hits": {"hits": [{"_id": "1-1", "_source": {"row": 1}}]}}


def calls(**connection: Any) -> Calls:
    given = Connection.model_validate({"base_url": BASE, **connection})
    return OpenSearchServer(lambda: given, SystemClock()).reading(5.0)


def failed(kind: str, reason: str = "", status: int = 429) -> dict[str, Any]:
    return {
        "status": status,
        "error": {"root_cause": [{"type": kind, "reason": reason}], "type": kind, "reason": reason},
    }


def error_of(action: Callable[[], object]) -> SourceError:
    with pytest.raises(SourceError) as caught:
        action()
    return caught.value


@respx.mock
@pytest.mark.parametrize(
    ("connection", "header", "value"),
    [
        ({"user": "desk", "api_key": "p:w"}, "authorization", "Basic " + base64.b64encode(b"desk:p:w").decode()),
        ({"api_key": "abc"}, "authorization", "Bearer abc"),
        ({"api_key": "abc", "api_key_header": "X-Api-Key"}, "x-api-key", "abc"),
        ({}, "authorization", None),
    ],
)
def test_a_call_is_authorised_as_its_connection_says(connection: Any, header: str, value: str | None) -> None:
    route = respx.get(f"{BASE}/").respond(json={})
    calls(**connection).ask("GET", "")
    assert route.calls.last.request.headers.get(header) == value


@respx.mock
def test_a_token_server_gives_the_token() -> None:
    respx.post("http://login.bank.example/token").respond(json={"access_token": "t-1", "expires_in": 60})
    route = respx.get(f"{BASE}/").respond(json={})
    login = {"token_url": "http://login.bank.example/token", "client_id": "c", "client_secret": "s"}
    calls(**login).ask("GET", "")
    assert route.calls.last.request.headers["authorization"] == "Bearer t-1"


@respx.mock
@pytest.mark.parametrize(
    ("status", "body", "error", "retryable"),
    [
        (401, {}, SourceAuthError, False),
        (403, failed("security_exception"), SourceForbidden, False),
        (403, failed("cluster_block_exception", "blocked"), SourceUnavailable, False),
        (404, failed("index_not_found_exception"), SourceNotFound, False),
        (400, failed("parsing_exception"), SourceProtocolError, False),
        (400, failed("mapper_parsing_exception", "No handler for type [knn_vector]"), SourceUnavailable, False),
        (429, failed("rejected_execution_exception"), SourceBusy, True),
        (429, failed("cluster_block_exception", FULL), SourceUnavailable, False),
        (503, failed("no_shard_available_action_exception"), SourceUnavailable, True),
    ],
)
def test_each_refusal_has_its_error(status: int, body: Any, error: type[SourceError], retryable: bool) -> None:
    respx.get(f"{BASE}/").respond(status, json=body)
    raised = error_of(lambda: calls(user="desk", api_key="the-password").ask("GET", ""))
    assert type(raised) is error and raised.retryable is retryable
    assert "the-password" not in str(raised) and "notes-1" not in str(raised)


@respx.mock
def test_a_silent_server_is_a_timeout() -> None:
    respx.get(f"{BASE}/").mock(side_effect=httpx.ReadTimeout)
    assert isinstance(error_of(lambda: calls().ask("GET", "")), SourceTimeout)


@respx.mock
def test_failed_and_slow_shards_are_told_beside_the_hits() -> None:
    part = {**HIT, "timed_out": False, "_shards": {"total": 4, "successful": 3, "failed": 0}}
    respx.post(f"{BASE}/_msearch").respond(json={"responses": [part]})
    asked = calls()
    assert asked.search([SearchBody(["notes-1"], {}), SearchBody([], {})]) == [part, {"hits": {"hits": []}}]
    (failure,) = asked.failures
    assert "1 of 4 shards" in str(failure) and failure.retryable

    respx.post(f"{BASE}/_msearch").respond(json={"responses": [{**HIT, "timed_out": True}]})
    asked = calls()
    asked.search([SearchBody(["notes-1"], {})])
    assert len(asked.failures) == 1


@respx.mock
def test_a_search_that_fails_in_all_shards_raises() -> None:
    respx.post(f"{BASE}/_msearch").respond(json={"responses": [failed("search_phase_execution_exception", status=503)]})
    assert isinstance(error_of(lambda: calls().search([SearchBody(["notes-1"], {})])), SourceUnavailable)


@respx.mock
def test_a_scan_with_a_failed_shard_raises() -> None:
    respx.post(f"{BASE}/notes-1/_search").respond(json={**HIT, "_shards": {"total": 2, "successful": 0, "failed": 2}})
    assert isinstance(error_of(lambda: list(calls().scan(["notes-1"], {}, ()))), SourceUnavailable)


@respx.mock
def test_busy_changes_are_sent_again_and_no_others(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_PAUSES", server.Backoff(0.001, 0.001))
    done, busy = {"index": {"status": 201}}, {"index": failed("rejected_execution_exception")}
    route = respx.post(f"{BASE}/_bulk")
    route.side_effect = [
        httpx.Response(200, json={"items": [done, busy, done]}),
        httpx.Response(429, json=failed("rejected_execution_exception")),
        httpx.Response(200, json={"items": [done]}),
    ]
    calls().bulk([("1", "a"), ("2", "b"), ("3", "c")])
    assert [call.request.content for call in route.calls] == [b"1\na\n2\nb\n3\nc\n", b"2\nb\n", b"2\nb\n"]


@respx.mock
def test_a_refused_change_is_not_sent_again() -> None:
    refused, busy = failed("mapper_parsing_exception", status=400), failed("rejected_execution_exception")
    route = respx.post(f"{BASE}/_bulk").respond(json={"items": [{"index": busy}, {"index": refused}]})
    assert isinstance(error_of(lambda: calls().bulk([("1", "a"), ("2", "b")])), SourceProtocolError)
    assert route.call_count == 1


@respx.mock
@pytest.mark.parametrize(("answering", "lost"), [(2, False), (1, True)])
def test_a_refresh_that_lacks_copies_is_enough_while_every_shard_answers(answering: int, lost: bool) -> None:
    respx.post(f"{BASE}/notes-1,notes-2/_refresh").respond(json={"_shards": {"total": 4, "successful": 2, "failed": 0}})
    shards = {"total": 2, "successful": answering, "failed": 0}
    searched = respx.post(f"{BASE}/notes-1,notes-2/_search").respond(json={"_shards": shards, "hits": {"hits": []}})
    if lost:
        error = error_of(lambda: calls().refresh({"notes-2", "notes-1"}))
        assert isinstance(error, SourceUnavailable) and error.retryable and "1 of 2 shards" in str(error)
    else:
        calls().refresh({"notes-2", "notes-1"})
    assert searched.called


@respx.mock
def test_nothing_is_committed_after_a_search_of_the_writer_that_lacked_a_shard() -> None:
    respx.post(f"{BASE}/_msearch").respond(
        json={"responses": [{"status": 200, **HIT, "_shards": {"total": 2, "successful": 1}}]}
    )
    respx.post(f"{BASE}/notes-1/_refresh").respond(json={"_shards": {"total": 2, "successful": 2, "failed": 0}})
    writer = calls()
    writer.search([SearchBody(["notes-1"], {})])
    assert isinstance(error_of(lambda: writer.refresh(["notes-1"])), SourceUnavailable)


@respx.mock
def test_a_page_of_a_long_read_is_asked_for_again_while_the_server_is_busy() -> None:
    respx.post(f"{BASE}/notes-1/_search/point_in_time?keep_alive=2m").respond(json={"pit_id": "p"})
    respx.delete(f"{BASE}/_search/point_in_time").respond(json={})
    busy = httpx.Response(429, json=failed("circuit_breaking_exception"))
    page = {"hits": {"hits": [{"_id": "1-1", "_index": "notes-1", "_source": {"row": 1}}]}}
    asked = respx.post(f"{BASE}/_search").mock(side_effect=[busy, httpx.Response(200, json=page)])
    assert [row["row"] for row in calls().snapshot(["notes-1"], {}, ["row"])] == [1] and asked.call_count == 2
