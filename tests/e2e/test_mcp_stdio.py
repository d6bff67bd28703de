"""`context-engine mcp` as an assistant starts it: real processes, both eras, and everything that is no message."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.e2e.conftest import DemoBank

pytestmark = pytest.mark.slow

QUESTION = "Who approves a new product?"


def initialize(version: str = "2025-06-18") -> dict[str, Any]:
    params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def call(number: int, name: str, arguments: Any) -> dict[str, Any]:
    params = {"name": name, "arguments": arguments}
    return {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params}


@pytest.fixture(scope="module")
def command(demo_bank: DemoBank) -> Sequence[str]:
    return (sys.executable, "-m", "context_engine", "mcp", "--data-dir", str(demo_bank.place.parent))


def started(command: Sequence[str], folder: Path) -> subprocess.Popen[bytes]:
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, cwd=folder)


def answers(output: bytes) -> list[dict[str, Any]]:
    """Every line of stdout; each is a message of the protocol."""
    found = [json.loads(line) for line in output.splitlines()]
    assert all(one["jsonrpc"] == "2.0" for one in found)
    return found


def test_the_sdk_s_client_gets_cited_answers_in_both_eras(command: Sequence[str], tmp_path: Path) -> None:
    async def ask(era: str) -> list[Any]:
        server = StdioServerParameters(command=command[0], args=list(command[1:]), cwd=tmp_path)
        async with Client(stdio_client(server), mode=era) as client:
            found = await client.call_tool("search", {"question": QUESTION, "domain": "NPA"})
            first = found.structured_content["results"][0]
            return [found, await client.call_tool("fetch", {"id": first["id"]}), await client.call_tool("domains", {})]

    for era in ("legacy", "2026-07-28"):
        found, fetched, domains = asyncio.run(ask(era))
        assert found.structured_content["decision"] == "answered"
        assert "[1]" in found.content[0].text
        assert fetched.structured_content["metadata"]["source"] == found.structured_content["results"][0]["source"]
        assert "NPA" in {one["domain"] for one in domains.structured_content["domains"]}


def test_what_is_no_message_is_answered_and_what_is_asked_before_the_end_too(
    command: Sequence[str], tmp_path: Path
) -> None:
    lines = [
        b"not json",
        b"[]",
        b'[{"jsonrpc":"2.0","id":1,"method":"ping"}]',
        b"\xff\xfe",
        b"{}",
        b"[" * 100_000,
        b"",
        b"x" * 2_000_000,
        json.dumps(initialize()).encode(),
        b'{"jsonrpc":"2.0","method":"notifications/initialized"}',
        b'{"jsonrpc":"2.0","id":2,"method":"no/method"}',
        b'{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":5}}',
        json.dumps(call(4, "search", {"question": QUESTION, "domain": "NPA"})).encode(),
        json.dumps(call(5, "search", {"question": QUESTION, "domain": "none"})).encode(),
    ]
    process = started(command, tmp_path)
    output, errors = process.communicate(b"\n".join(lines), timeout=120)
    assert process.returncode == 0, errors
    found = answers(output)
    assert sum(one["id"] is None for one in found) == 7
    by_id = {one["id"]: one for one in found if one["id"] is not None}
    assert by_id[1]["result"]["protocolVersion"] == "2025-06-18"
    assert by_id[2]["error"]["code"] == -32601
    assert by_id[3]["error"]["code"] == -32602
    assert by_id[4]["result"]["structuredContent"]["decision"] == "answered"
    assert by_id[5]["result"]["isError"]
    assert b"Traceback" not in errors


@pytest.mark.skipif(sys.platform == "win32", reason="signals of POSIX")
def test_a_signal_ends_it_and_what_was_asked_is_recorded(command: Sequence[str], tmp_path: Path) -> None:
    ledger = tmp_path / "ledger.db"
    pipe = subprocess.PIPE
    with subprocess.Popen(
        ["env", f"CONTEXT_ENGINE_AUDIT_LEDGER={ledger}", *command], stdin=pipe, stdout=pipe, stderr=pipe, cwd=tmp_path
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        for message in (initialize(), call(2, "search", {"question": QUESTION, "domain": "NPA"})):
            process.stdin.write(json.dumps(message).encode() + b"\n")
            process.stdin.flush()
            found = json.loads(process.stdout.readline())
        search_id = found["result"]["structuredContent"]["search_id"]
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) == 143
        assert process.stdout.read() == b""
    shown = subprocess.run(
        [*command[:3], "audit", "show", search_id, "--ledger", str(ledger), "--json"],
        capture_output=True, cwd=tmp_path, check=False,
    )  # fmt: skip
    assert shown.returncode == 0, shown.stderr
    assert search_id in shown.stdout.decode()
