"""`/mcp` of the service: who calls, from where, in which revision, and whatever else may come."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any, ClassVar

import httpx
import pytest
from fastapi.testclient import TestClient
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from context_engine.apps.mcp.tools import TOOLS
from context_engine.apps.server.app import create_app
from context_engine.apps.server.service import Service
from context_engine.core.models import Authenticated
from context_engine.service.deployment import Deployment, LiveDeployment
from tests.unit.apps.mcp.conftest import CHAIR
from tests.unit.service.small_bank import CLERK, QUESTION, Tokens, as_

JSON = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream", "Host": "localhost"}
MODERN = "2026-07-28"
ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": MODERN,
    "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "1"},
    "io.modelcontextprotocol/clientCapabilities": {},
}


class Bearers(Tokens):
    """The chair of the board is cleared for what the board has."""

    known: ClassVar = {**Tokens.known, "chair": Authenticated(principal=CHAIR)}


def app_of(bank: Deployment) -> Any:
    return create_app(Service(LiveDeployment(lambda: bank), Bearers(), threads=4))


@pytest.fixture(scope="module")
def client(bank: Deployment) -> Iterator[TestClient]:
    with TestClient(app_of(bank)) as client:
        yield client


def posted(client: TestClient, body: Any, who: Any = CLERK, **headers: str) -> httpx.Response:
    content = body if isinstance(body, bytes) else json.dumps(body)
    named = {} if who is None else as_(who)
    return client.post("/mcp", content=content, headers={**JSON, **named, **headers})


def request(method: str, params: Any = None, number: int | str = 1) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": number, "method": method, **({} if params is None else {"params": params})}


def call(name: str, **arguments: Any) -> dict[str, Any]:
    return request("tools/call", {"name": name, "arguments": arguments})


def initialize(version: str) -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "Dify", "version": "1.9.0"}}
    return request("initialize", params)


@pytest.mark.parametrize("version", ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"])
def test_an_older_client_is_served_as_dify_s_asks(client: TestClient, version: str) -> None:
    opened = posted(client, initialize(version))
    assert opened.json()["result"]["protocolVersion"] == version
    assert "mcp-session-id" not in opened.headers
    later = {} if version < "2025-06-18" else {"MCP-Protocol-Version": version}
    done = posted(client, {"jsonrpc": "2.0", "method": "notifications/initialized"}, **later)
    assert (done.status_code, done.content) == (202, b"")
    tools = posted(client, request("tools/list"), **later).json()["result"]["tools"]
    assert [tool["name"] for tool in tools] == [tool.name for tool in TOOLS]
    answer = posted(client, call("search", question=QUESTION), **later)
    assert answer.headers["content-type"] == "application/json"
    result = answer.json()["result"]
    assert result["isError"] is False
    assert result["structuredContent"]["question"] == QUESTION
    assert "[1]" in result["content"][0]["text"]


def test_a_session_id_that_a_client_has_from_elsewhere_is_passed_over(client: TestClient) -> None:
    assert posted(client, request("tools/list"), **{"Mcp-Session-Id": "abc"}).status_code == 200


def modern(client: TestClient, method: str, params: dict[str, Any], name: str | None = None) -> httpx.Response:
    headers = {"MCP-Protocol-Version": MODERN, "Mcp-Method": method, **({} if name is None else {"Mcp-Name": name})}
    return posted(client, request(method, {**params, "_meta": ENVELOPE}), **headers)


def test_the_stateless_revision_is_served(client: TestClient) -> None:
    found = modern(client, "server/discover", {}).json()["result"]
    assert MODERN in found["supportedVersions"]
    listed = modern(client, "tools/list", {}).json()["result"]
    assert (listed["resultType"], listed["cacheScope"]) == ("complete", "public")
    assert listed["ttlMs"] > 0
    answer = modern(client, "tools/call", {"name": "search", "arguments": {"question": QUESTION}}, "search")
    assert answer.json()["result"]["structuredContent"]["decision"] == "answered"


def test_headers_that_say_something_else_than_the_body_are_refused(client: TestClient) -> None:
    answer = modern(client, "tools/call", {"name": "search", "arguments": {"question": QUESTION}}, "domains")
    assert answer.status_code == 400


@pytest.mark.parametrize("body", [initialize("2025-06-18"), request("tools/list"), call("domains"), b"{"])
def test_nothing_is_answered_without_a_token(client: TestClient, body: Any) -> None:
    for headers in ({}, {"Authorization": "Bearer nobody"}, {"Mcp-Session-Id": "abc"}):
        refused = posted(client, body, None, **headers)
        assert refused.status_code == 401
        assert refused.headers["www-authenticate"].startswith("Bearer")
        assert "tools" not in refused.text


def test_each_request_is_its_caller_s_alone(client: TestClient) -> None:
    sources: dict[str, set[str]] = {}
    for who in (CHAIR, CLERK, CHAIR, CLERK):
        result = posted(client, call("domains"), who, **{"Mcp-Session-Id": "one"}).json()["result"]
        sources.setdefault(who.id, set()).add(result["content"][0]["text"])
    assert {who: len(texts) for who, texts in sources.items()} == {"chair": 1, "clerk": 1}
    assert ["board" in sources[who].pop() for who in ("chair", "clerk")] == [True, False]


def test_the_record_of_a_search_has_the_request_s_id(client: TestClient) -> None:
    answer = posted(client, call("search", question=QUESTION), **{"X-Request-Id": "r-77"}).json()
    search_id = answer["result"]["structuredContent"]["search_id"]
    record = client.get(f"/api/v1/rag/records/{search_id}", headers=as_(CLERK)).json()
    assert record["entry"]["request_id"] == "r-77"


@pytest.mark.parametrize("host", ["localhost:8000", "127.0.0.1", "[::1]:9", "LOCALHOST"])
def test_names_of_this_machine_are_right(client: TestClient, host: str) -> None:
    assert posted(client, request("tools/list"), Host=host).status_code == 200


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "localhost.evil.example", "localhost@evil", "[::1"]
)
def test_another_name_is_refused(client: TestClient, host: str) -> None:
    assert posted(client, request("tools/list"), Host=host).status_code == 403


@pytest.mark.parametrize(
    ("origin", "status"),
    [
        ("http://localhost:3000", 200),
        ("https://127.0.0.1", 200),
        ("http://[::1]:80", 200),
        ("https://evil.example", 403),
        ("http://localhost.evil.example", 403),
        ("null", 403),
        ("", 403),
        ("http://[", 403),
    ],
)
def test_pages_of_this_machine_alone_may_ask(client: TestClient, origin: str, status: int) -> None:
    assert posted(client, request("tools/list"), Origin=origin).status_code == status


@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT", "OPTIONS"])
def test_there_is_no_stream_and_no_session_to_end(client: TestClient, method: str) -> None:
    answer = client.request(method, "/mcp", headers={**JSON, **as_(CLERK)})
    assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"[]",
        b"[" * 100_000,
        b"\xff\xfe",
        b'{"jsonrpc":"2.0","id":"\\ud800","method":"tools/list"}',
        json.dumps([request("ping"), request("ping")]).encode(),
        request("tools/call"),
        request("tools/call", {"name": 5}),
        request("tools/call", {"name": "search", "arguments": [1]}),
        {"jsonrpc": "1.0", "id": 1, "method": "ping"},
        {"id": 1},
    ],
)
@pytest.mark.usefixtures("collector_off")
def test_what_is_no_message_is_refused(client: TestClient, body: Any) -> None:
    answer = posted(client, body)
    assert answer.status_code in (200, 400)
    assert answer.json()["error"]["code"] < 0


def test_a_body_that_is_too_long_is_refused(client: TestClient) -> None:
    assert posted(client, call("search", question="x" * 1_100_000)).status_code == 413


def test_versions_that_there_are_not(client: TestClient) -> None:
    assert posted(client, initialize("1999-01-01")).json()["result"]["protocolVersion"] == "2025-11-25"
    for version in ("1999-01-01", "x", ""):
        assert posted(client, request("tools/list"), **{"MCP-Protocol-Version": version}).status_code == 400


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=30),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=12), inner, max_size=3),
    max_leaves=8,
)
methods = st.sampled_from(["initialize", "tools/list", "tools/call", "ping", "server/discover", "x", ""]) | anything
names = st.sampled_from(["search", "answer", "fetch", "explain", "domains", "feedback"]) | anything
keys = st.sampled_from(["question", "query", "domain", "top_k", "filters", "id", "cursor", "as_of", "search_id"])
params = st.fixed_dictionaries({}, optional={"name": names, "arguments": st.dictionaries(keys, anything) | anything})
versions = st.just("2.0") | anything
members = {"jsonrpc": versions, "id": st.integers() | anything, "method": methods, "params": params}
messages = st.fixed_dictionaries({}, optional=members)


@given(messages | anything, st.sampled_from([None, MODERN, "2025-06-18", "x"]))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_whatever_comes_has_an_answer_that_is_no_failure(client: TestClient, body: Any, version: str | None) -> None:
    headers = {} if version is None else {"MCP-Protocol-Version": version}
    answer = posted(client, json.dumps(body).encode("utf-8", "surrogatepass"), **headers)
    assert answer.status_code in (200, 202, 400, 404)
    if answer.status_code == 200:
        said = answer.json()
        assert said.get("error", {}).get("code") != -32603
        assert "the tool failed" not in answer.text


@pytest.mark.slow
def test_nothing_grows_with_calls(bank: Deployment) -> None:
    async def tasks() -> list[int]:
        app = app_of(bank)
        counts = []
        async with app.router.lifespan_context(app):
            transport = httpx.ASGITransport(app)
            async with httpx.AsyncClient(transport=transport, base_url="http://localhost", headers=as_(CLERK)) as http:
                for _ in range(3):
                    await asyncio.gather(*(http.post("/mcp", json=call("domains"), headers=JSON) for _ in range(40)))
                    await asyncio.sleep(0.05)
                    counts.append(len(asyncio.all_tasks()))
        return counts

    counts = asyncio.run(tasks())
    assert counts[1] == counts[2] <= counts[0] + 1
