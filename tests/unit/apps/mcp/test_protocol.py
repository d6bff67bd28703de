"""The tools as the SDK's own client sees them, in both eras of the protocol."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, TypeVar

import pytest
from mcp.client.client import Client

from context_engine.apps.mcp.protocol import Work, mcp_server
from context_engine.apps.mcp.reply import SentReply
from context_engine.core.models import Authenticated, Principal
from context_engine.service.deployment import Deployment
from tests.unit.service.small_bank import CLERK, QUESTION

T = TypeVar("T")
NAMES = ["search", "answer", "fetch", "explain", "domains", "feedback", "job_start", "job_add", "job_show"]
WRITING = {"feedback", "job_start", "job_add"}


def with_client(bank: Deployment, era: str, use: Callable[[Client], Awaitable[T]], who: Principal = CLERK) -> T:
    """Have something done with a client of the tools."""

    async def desk(request: Any, work: Work, _domain: str | None) -> SentReply:
        assert request is None
        return await asyncio.to_thread(work, bank, Authenticated(principal=who))

    async def done() -> T:
        async with Client(mcp_server(desk), mode=era) as client:
            return await use(client)

    return asyncio.run(done())


eras = pytest.mark.parametrize("era", ["legacy", "2026-07-28"])


@eras
def test_tools_tell_what_they_are(bank: Deployment, era: str) -> None:
    tools = with_client(bank, era, lambda client: client.list_tools()).tools
    assert [tool.name for tool in tools] == NAMES
    for tool in tools:
        assert tool.description
        assert tool.annotations is not None
        assert tool.annotations.read_only_hint is (tool.name not in WRITING)
        assert tool.annotations.idempotent_hint is (tool.name not in WRITING - {"feedback"})
        assert tool.annotations.open_world_hint is False
        assert tool.annotations.destructive_hint is False
        assert tool.output_schema is not None
        assert tool.output_schema["type"] == tool.input_schema["type"] == "object"
        for name, schema in tool.input_schema["properties"].items():
            assert schema["description"], (tool.name, name)
            assert "type" in schema or [one["type"] for one in schema["anyOf"]] == ["object", "string"]
    assert set(tools[0].input_schema["properties"]) >= {"question", "query", "domain", "top_k", "detail", "cursor"}


@eras
def test_no_answer_has_a_field_of_a_name_that_dify_keeps_for_itself(bank: Deployment, era: str) -> None:
    """Its tool node makes a variable of every field of structured content, and fails where one has such a name."""
    for tool in with_client(bank, era, lambda client: client.list_tools()).tools:
        assert not {"text", "json", "files"} & tool.output_schema["properties"].keys(), tool.name


@eras
def test_every_tool_answers_in_its_schema(bank: Deployment, era: str) -> None:
    async def use(client: Client) -> list[Any]:
        found = await client.call_tool("search", {"question": QUESTION, "detail": "full"})
        first = found.structured_content["results"][0]
        fetched = await client.call_tool("fetch", {"id": first["id"]})
        explained = await client.call_tool("explain", {"search_id": found.structured_content["search_id"]})
        return [found, fetched, explained, await client.call_tool("domains", {})]

    for answer in with_client(bank, era, use):  # the client checks structured content against the schema
        assert not answer.is_error
        assert answer.structured_content
        assert [one.type for one in answer.content] == ["text"]


@eras
@pytest.mark.parametrize(
    ("name", "arguments"),
    [
        ("search", {}),
        ("search", {"question": QUESTION, "domain": "DCE"}),
        ("search", {"question": QUESTION, "top_k": "all"}),
        ("search", {"question": QUESTION, "filters": "= = ="}),
        ("fetch", {"id": "nothing"}),
        ("fetch", {"chunk_id": "nothing"}),
        ("domains", {"domain": "ORM"}),
        ("no_tool", {}),
    ],
)
def test_what_goes_wrong_is_an_answer_of_the_tool(bank: Deployment, era: str, name: str, arguments: Any) -> None:
    answer = with_client(bank, era, lambda client: client.call_tool(name, arguments))
    assert answer.is_error
    assert answer.content[0].text.endswith("]")
    assert answer.structured_content is None


def test_what_nobody_foresaw_shows_nothing_of_itself() -> None:
    async def desk(_request: Any, _work: Work, _domain: str | None) -> SentReply:
        raise RuntimeError("s3cret")

    async def done() -> Any:
        async with Client(mcp_server(desk)) as client:
            return await client.call_tool("domains", {})

    answer = asyncio.run(done())
    assert answer.is_error
    assert "s3cret" not in json.dumps(answer.model_dump(mode="json"))


def test_calls_are_worked_on_beside_each_other(bank: Deployment) -> None:
    async def use(client: Client) -> list[Any]:
        call = partial(client.call_tool, "search")
        return list(await asyncio.gather(*(call({"question": f"{QUESTION} {number}"}) for number in range(12))))

    answers = with_client(bank, "2026-07-28", use)
    assert [one.structured_content["question"] for one in answers] == [f"{QUESTION} {number}" for number in range(12)]
