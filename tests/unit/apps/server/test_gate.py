"""What every request passes: id, token, rate, body; and what every answer carries."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient
from pydantic import ValidationError

from context_engine.apps.server.body import read_body
from context_engine.apps.server.gate import Gate
from context_engine.apps.server.problems import HttpProblem
from context_engine.core.models import Settings
from tests.unit.apps.server.small_service import TOKEN, small_client, small_service

GOOD = {"query": "limits"}


@pytest.fixture
def client() -> TestClient:
    return small_client(small_service(server_max_body_bytes=1024))


def code(answer: Any) -> tuple[int, str]:
    """The status of a problem with its code; every problem is whole."""
    told = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert told["status"] == answer.status_code
    assert told["type"] == f"urn:context-engine:problem:{told['code']}"
    assert told["instance"] == answer.headers["x-request-id"]
    assert told["detail"] and told["title"] and told["mend"]
    return answer.status_code, told["code"]


def test_every_answer_carries_an_id_and_is_kept_by_nobody(client: TestClient) -> None:
    for answer in (client.get("/healthz"), client.get("/nothing"), client.post("/api/asked", json=GOOD, headers=TOKEN)):
        assert answer.headers["x-content-type-options"] == "nosniff"
        assert answer.headers["cache-control"] == "no-store"
        assert len(answer.headers["x-request-id"]) == 32


@pytest.mark.parametrize(
    ("given", "kept"), [("order-66:a.b_c", True), ("a" * 129, False), ("a b", False), ("ä", False)]
)
def test_an_id_that_is_sent_is_kept_if_it_is_one(client: TestClient, given: str, kept: bool) -> None:
    answer = client.get("/healthz", headers={"X-Request-Id": given.encode("latin-1")})
    assert (answer.headers["x-request-id"] == given) is kept


def test_who_has_no_token_is_not_looked_at_any_further(client: TestClient) -> None:
    for path in ("/api/asked", "/api/none", "/api", "/mcp", "/mcp/x"):
        answer = client.post(path, content=b"{" * 5000, headers={"Authorization": "Bearer nobody"})
        assert code(answer) == (401, "not_authenticated")
        assert answer.headers["www-authenticate"].startswith("Bearer")
    assert code(client.get("/apiary")) == (404, "not_found")


def test_an_address_and_a_method_that_are_not_there(client: TestClient) -> None:
    assert code(client.get("/api/none", headers=TOKEN)) == (404, "not_found")
    answer = client.get("/api/asked", headers=TOKEN)
    assert code(answer) == (405, "method_not_allowed")
    assert answer.headers["allow"] == "POST"
    assert code(client.get("/healthz?a=%00")) == (400, "malformed_request")


def test_each_field_is_told_with_its_mend(client: TestClient) -> None:
    answer = client.post("/api/asked", json={"top_k": "many", "quer": "x", "filters": []}, headers=TOKEN)
    assert code(answer) == (422, "invalid_request")
    fields = {one["pointer"]: one for one in answer.json()["errors"]}
    assert fields.keys() == {"/query", "/top_k", "/quer", "/filters"}
    assert all(one["detail"] and one["mend"] for one in fields.values())
    assert "'query'" in fields["/quer"]["mend"]


def test_of_many_fields_that_are_not_there_a_few_are_told() -> None:
    answer = small_client(small_service()).post(
        "/api/asked", json={f"quer{at}": 1 for at in range(9000)}, headers=TOKEN
    )
    assert code(answer) == (422, "invalid_request") and len(answer.json()["errors"]) == 20


def test_a_key_in_a_field_is_not_said_again(client: TestClient) -> None:
    answer = client.post("/api/asked", json={"query": "x", "top_k": "dataset-AbC123dEf456GhI789"}, headers=TOKEN)
    assert "AbC123dEf456GhI789" not in answer.text


def test_without_tokens_a_name_that_leads_here_is_not_enough() -> None:
    service = small_service()
    service.own_names_only = True
    client = small_client(service)
    assert client.get("/healthz", headers={"Host": "127.0.0.1:8000"}).status_code == 200
    assert code(client.get("/healthz", headers={"Host": "page.example:8000"})) == (403, "not_permitted")


def chunked(size: int) -> Iterator[bytes]:
    yield b'{"query": "'
    for _ in range(size):
        yield b"x"
    yield b'"}'


def test_a_body_has_a_length_stated_or_not(client: TestClient) -> None:
    headers = {**TOKEN, "Content-Type": "application/json"}
    assert code(client.post("/api/asked", json={"query": "x" * 1013}, headers=TOKEN)) == (413, "body_too_large")
    assert client.post("/api/asked", content=chunked(1024 - 13), headers=headers).status_code == 200
    assert code(client.post("/api/asked", content=chunked(1025 - 13), headers=headers)) == (413, "body_too_large")


@pytest.mark.parametrize("kind", ["text/plain", "application/xml", "application/json; charset=latin-1", "json", ""])
def test_a_body_is_json_or_nothing(client: TestClient, kind: str) -> None:
    answer = client.post("/api/asked", content=b'{"query": "x"}', headers={**TOKEN, "Content-Type": kind})
    assert code(answer) == (415, "unsupported_media_type")


@pytest.mark.parametrize("coding", ["gzip", "br", "deflate, gzip", "x"])
def test_a_compressed_body_is_refused_as_such(client: TestClient, coding: str) -> None:
    headers = {**TOKEN, "Content-Type": "application/json", "Content-Encoding": coding}
    answer = client.post("/api/asked", content=b"\x1f\x8b\x08\x00", headers=headers)
    assert code(answer) == (415, "unsupported_media_type")
    assert answer.headers["Accept-Encoding"] == "identity"
    plain = client.post("/api/asked", content=b'{"query": "x"}', headers={**headers, "Content-Encoding": "Identity"})
    assert plain.status_code == 200


@pytest.mark.parametrize("kind", ["application/json", "APPLICATION/JSON; charset=UTF-8", "application/problem+json"])
def test_json_has_more_than_one_name(client: TestClient, kind: str) -> None:
    answer = client.post("/api/asked", content=b'{"query": "x"}', headers={**TOKEN, "Content-Type": kind})
    assert answer.status_code == 200


@pytest.mark.parametrize("body", [b"", b"null", b"[]", b'"x"', b"{}"])
def test_what_is_json_and_no_request(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/asked", content=body, headers={**TOKEN, "Content-Type": "application/json"})
    assert code(answer) == (422, "invalid_request")


@pytest.mark.parametrize("body", [b"{", b'{"query": NaN}', b'{"query": "a", "query": "b"}', b"\xff", b"[" * 100_0])
@pytest.mark.usefixtures("collector_off")
def test_what_is_no_sound_json(client: TestClient, body: bytes) -> None:
    answer = client.post("/api/asked", content=body, headers={**TOKEN, "Content-Type": "application/json"})
    assert code(answer) == (400, "malformed_request")


def test_what_nobody_foresaw_is_told_to_the_log_alone(client: TestClient, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "context_engine"):
        answer = client.get("/api/fails", headers={**TOKEN, "X-Request-Id": "order-66"})
    assert code(answer) == (500, "internal_error")
    assert "secret" not in answer.text
    assert any("order-66" in one.getMessage() and one.exc_info for one in caplog.records)


def test_each_principal_has_a_rate_of_its_own() -> None:
    client = small_client(small_service(server_rate_per_minute=1, server_rate_burst=2))
    answers = [client.post("/api/asked", json=GOOD, headers=TOKEN) for _ in range(3)]
    assert [one.status_code for one in answers] == [200, 200, 429]
    assert [one.headers["ratelimit"].split(";")[1] for one in answers] == ["r=1", "r=0", "r=0"]
    assert answers[0].headers["ratelimit-policy"] == '"principal";q=1;w=60'
    assert code(answers[2]) == (429, "rate_exceeded")
    assert 50 <= int(answers[2].headers["retry-after"]) <= 60
    assert client.post("/api/asked", json=GOOD, headers={"Authorization": "Bearer other"}).status_code == 200
    assert "ratelimit" not in client.get("/healthz").headers


def test_the_callers_of_a_gateway_are_counted_apart() -> None:
    client = small_client(small_service(server_rate_per_minute=1, server_rate_burst=1))
    gateway = {"Authorization": "Bearer gateway"}

    def ask(user: str) -> int:
        call = {"parameters": {}, "app_id": "app", "user_id": user}
        return client.post("/api/asked", json=call, headers=gateway).status_code

    # 422: the route knows other fields; the rate counts before it.
    assert [ask("ana"), ask("ana"), ask("ben")] == [422, 429, 422]
    assert (
        client.post("/api/asked", content=b"[1]", headers={**gateway, "Content-Type": "application/json"}).status_code
        == 422
    )


def test_a_service_that_stops_closes_the_connection_with_each_answer() -> None:
    service = small_service()
    client = small_client(service)
    assert "connection" not in client.get("/healthz").headers
    service.readiness.draining = True
    assert client.get("/healthz").headers["connection"] == "close"
    assert code(client.get("/readyz")) == (503, "not_ready")


@pytest.mark.parametrize("stopping", [True, False])
def test_a_request_that_is_cut_off_when_the_service_stops_is_told_so(stopping: bool) -> None:
    async def never(_scope: Any, _receive: Any, _send: Any) -> None:
        raise asyncio.CancelledError

    async def receive() -> Any:
        return {"type": "http.disconnect"}

    async def send(message: Any) -> None:
        sent.append(message)

    sent: list[Any] = []
    service = small_service()
    service.readiness.draining = stopping
    gate = Gate(never, service, {})
    asked: dict[str, Any] = {
        "type": "http",
        "method": "GET",
        "path": "/healthz",
        "headers": [],
        "query_string": b"",
        "app": None,
    }
    if stopping:
        asyncio.run(gate(asked, receive, send))
        assert sent[0]["status"] == 503
        assert json.loads(sent[1]["body"])["code"] == "not_ready"
    else:
        with pytest.raises(asyncio.CancelledError):
            asyncio.run(gate(asked, receive, send))


def test_names_that_are_listed_hold_for_every_address_with_a_token() -> None:
    client = small_client(small_service(server_allowed_hosts=("engine.bank.example",)))
    right, wrong = {**TOKEN, "Host": "engine.bank.example"}, {**TOKEN, "Host": "elsewhere.example"}
    assert client.post("/api/asked", json=GOOD, headers=right).status_code == 200
    assert code(client.post("/api/asked", json=GOOD, headers=wrong)) == (403, "not_permitted")
    assert client.get("/healthz", headers={"Host": "elsewhere.example"}).status_code == 200, "a probe may use any name"


def test_the_name_under_which_browsers_reach_the_service_is_one_of_its_names() -> None:
    public = {"server_public_url": "https://search.bank.example:8443"}
    client = small_client(small_service(server_allowed_hosts=("engine.bank.example",), **public))
    for host in ("search.bank.example:8443", "Search.Bank.example", "engine.bank.example"):
        assert client.post("/api/asked", json=GOOD, headers={**TOKEN, "Host": host}).status_code == 200
    assert client.post("/api/asked", json=GOOD, headers={**TOKEN, "Host": "bank.example"}).status_code == 403


@pytest.mark.parametrize(
    "url", ["search.bank.example", "https://bank.example/search", "https://a@b.example", "ftp://b"]
)
def test_the_public_address_is_a_name_of_its_own(url: str) -> None:
    with pytest.raises(ValidationError, match="name of their own"):
        Settings(server_public_url=url)


@pytest.mark.parametrize("path", ["/retrieval", "//retrieval"])
def test_an_address_with_a_form_of_its_own_is_told_so_in_it(client: TestClient, path: str) -> None:
    url = f"http://testserver{path}"
    answer = client.post(url, content=b"{", headers={"Content-Type": "application/json", **TOKEN})
    assert (answer.status_code, answer.headers["content-type"]) == (400, "application/json")
    assert answer.json().keys() == {"error_code", "error_msg"}
    assert client.get(url, headers=TOKEN).headers["allow"] == "POST"
    without = client.post(url, content=b"{" * 5000)
    assert (without.status_code, without.json()["error_code"]) == (403, 1001)
    wrong = client.post(url, content=b"{}", headers={"Authorization": "Bearer nobody"})
    assert (wrong.status_code, wrong.json()["error_code"]) == (403, 1002)


@pytest.mark.parametrize("name", ["Authorization", "Content-Type"])
def test_what_says_one_thing_is_not_said_twice(client: TestClient, name: str) -> None:
    twice = [("Authorization", "Bearer clerk"), ("Content-Type", "application/json"), (name, "Bearer chair")]
    answer = client.post("/api/asked", content=b"{}", headers=twice)
    assert code(answer) == (400, "malformed_request") and name.lower() in answer.json()["detail"]


def read(messages: list[dict[str, Any]], seconds: float = 5.0) -> bytes | None:
    left = iter(messages)

    async def receive() -> Any:
        if (one := next(left, None)) is None:
            await asyncio.Event().wait()
        return one

    return asyncio.run(read_body(receive, {}, 100, seconds))


def test_a_body_that_does_not_come_is_not_waited_for() -> None:
    part = {"type": "http.request", "body": b"ab", "more_body": True}
    with pytest.raises(HttpProblem) as raised:
        read([part], seconds=0.01)
    assert raised.value.kind.status == 408
    assert read([part, {"type": "http.disconnect"}]) is None
    assert read([part, {**part, "more_body": False}]) == b"abab"
