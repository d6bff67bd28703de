"""The guide to assistants, followed to the letter: its configurations are read and used as the programs read them."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp.client.streamable_http import streamable_http_client

from tests.e2e.conftest import DemoBank

pytestmark = pytest.mark.slow

GUIDE = (Path(__file__).resolve().parents[2] / "docs/guides/mcp.md").read_text("utf-8")
TOKEN = "ce-test-token-of-the-guide-0123456789abcdef"
LISTENS = re.compile(r"http://127\.0\.0\.1:(\d+)")
QUESTION = {"question": "Who approves a new product?", "domain": "NPA"}


def block(name: str) -> str:
    """The named block of the guide."""
    (found,) = re.findall(rf"^<!-- {name} -->\n```\w+\n(.*?)^```$", GUIDE, re.MULTILINE | re.DOTALL)
    return str(found)


def settings(name: str) -> Any:
    """The JSON of a block."""
    return json.loads(block(name))


def run_as_program(command: str, args: list[str]) -> tuple[str, list[str]]:
    """A command of the guide with this interpreter; without the folder of the guide the demo bank is searched."""
    assert command == "context-engine"
    assert args == ["mcp", "--config-dir", "/srv/bank"]
    return sys.executable, ["-m", "context_engine", args[0]]


@pytest.fixture(scope="module")
def address(demo_bank: DemoBank, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A service with a token, on the demo bank."""
    command = [sys.executable, "-m", "context_engine", "serve", "--demo", "--port", "0"]
    process = subprocess.Popen(
        [*command, "--data-dir", str(demo_bank.place.parent)],
        stderr=subprocess.PIPE, text=True, cwd=tmp_path_factory.mktemp("serve"),
        env={**os.environ, "CONTEXT_ENGINE_API_TOKEN": TOKEN},
    )  # fmt: skip
    assert process.stderr is not None
    try:
        found = next((found for line in process.stderr if (found := LISTENS.search(line))), None)
        assert found is not None
        yield found[0]
    finally:
        process.terminate()
        assert process.wait(60) == 0
        process.stderr.close()


def rpc(address: str, method: str, params: Any, headers: dict[str, str]) -> Any:
    usual = {"Content-Type": "application/json", "Accept": "application/json, text/event-stream"}
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
    return httpx.post(f"{address}/mcp", json=body, headers={**usual, **headers}, timeout=60)


def test_programs_that_start_the_tools_get_a_cited_answer(demo_bank: DemoBank, tmp_path: Path) -> None:
    desktop = settings("mcp-desktop")["mcpServers"]["bank"]
    editor = settings("mcp-editor")["servers"]["bank"]
    command, *args = shlex.split(block("mcp-code").partition(" -- ")[2])
    assert editor.pop("type") == "stdio"
    assert desktop == editor == {"command": command, "args": args}
    program, given = run_as_program(command, args)
    server = StdioServerParameters(
        command=program, args=[*given, "--data-dir", str(demo_bank.place.parent)], cwd=tmp_path
    )

    async def ask() -> Any:
        async with Client(stdio_client(server)) as client:
            return await client.call_tool("search", QUESTION)

    answer = asyncio.run(ask())
    assert answer.structured_content["results"][0]["label"] == "[1]"
    assert "### [1] [Source: " in answer.content[0].text


def test_clients_with_a_token_get_the_same_over_http(address: str) -> None:
    project = settings("mcp-project")["mcpServers"]["bank"]
    editor = settings("mcp-editor-http")
    (asked,) = editor["inputs"]
    assert asked["password"]
    variables = {"${CONTEXT_ENGINE_API_TOKEN}": TOKEN, f"${{input:{asked['id']}}}": TOKEN}

    async def ask(server: Any, era: str) -> Any:
        headers = dict(server["headers"])
        for name, value in variables.items():
            headers["Authorization"] = headers["Authorization"].replace(name, value)
        url = server["url"].replace("http://127.0.0.1:8000", address)
        async with (
            httpx2.AsyncClient(headers=headers, timeout=60) as http,
            Client(streamable_http_client(url, http_client=http), mode=era) as client,
        ):
            return await client.call_tool("search", QUESTION)

    for server in (project, editor["servers"]["bank"]):
        assert server["type"] == "http"
        for era in ("legacy", "2026-07-28"):
            answer = asyncio.run(ask(server, era))
            assert answer.structured_content["decision"] == "answered"
    assert rpc(address, "tools/list", {}, {}).status_code == 401


def test_chatgpt_s_two_calls(address: str) -> None:
    tool = settings("mcp-responses")
    assert tool["server_url"].endswith("/mcp")
    headers = {"Authorization": f"Bearer {tool['authorization'].replace('${CONTEXT_ENGINE_API_TOKEN}', TOKEN)}"}
    search, fetch = tool["allowed_tools"]
    # With one domain, `query` alone will do; the demo bank has four, and says so in a way that can be mended.
    alone = rpc(address, "tools/call", {"name": search, "arguments": {"query": "new product"}}, headers)
    assert "NPA" in alone.json()["result"]["content"][0]["text"]
    arguments = {"query": QUESTION["question"], "domain": "NPA"}
    found = rpc(address, "tools/call", {"name": search, "arguments": arguments}, headers).json()["result"]
    (content,) = found["content"]
    first = json.loads(content["text"])["results"][0]
    assert {type(first[name]) for name in ("id", "title", "url")} == {str}
    fetched = rpc(address, "tools/call", {"name": fetch, "arguments": {"id": first["id"]}}, headers).json()["result"]
    read = json.loads(fetched["content"][0]["text"])
    assert read["id"] == first["id"]
    assert {type(read[name]) for name in ("id", "title", "text", "url")} == {str}


def test_dify_s_calls(address: str) -> None:
    rows = dict(re.findall(r"^\| (Server URL|Headers) \| (.*) \|$", GUIDE, re.MULTILINE))
    assert rows["Server URL"].strip("`").endswith("/mcp")
    name, scheme = re.findall(r"`(\w+)`", rows["Headers"])
    headers = {name: f"{scheme} {TOKEN}"}
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "Dify", "version": "1.9.0"}}
    opened = rpc(address, "initialize", params, headers)
    assert opened.json()["result"]["protocolVersion"] == "2025-06-18"
    tools = rpc(address, "tools/list", {}, headers).json()["result"]["tools"]
    assert all(tool["outputSchema"]["type"] == "object" for tool in tools)
    answer = rpc(address, "tools/call", {"name": "search", "arguments": QUESTION}, headers).json()["result"]
    assert answer["structuredContent"]["results"][0]["title"]


def test_trying_it(address: str) -> None:
    asked = json.loads(shlex.split(block("mcp-try"))[-1])
    answer = rpc(address, asked["method"], asked["params"], {"Authorization": f"Bearer {TOKEN}"})
    assert answer.json()["result"]["structuredContent"]["decision"] == "answered"
