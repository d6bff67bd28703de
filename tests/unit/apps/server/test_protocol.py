"""HTTP/1.1: what is begun and not ended is not waited for without an end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from fastapi import Response

from context_engine.apps.server import running as protocol
from tests.unit.apps.server.small_service import small_client, small_service


async def _closed_after(port: int, sent: bytes) -> bytes:
    """What a server answers until it closes the connection, which is left open here."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(sent)
        return await asyncio.wait_for(reader.read(), 30)
    finally:
        writer.close()


async def _not_read(port: int) -> int:
    """How much of an answer of 50 MB comes to a caller who is slow to read."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1024)
    writer.write(b"GET /long HTTP/1.1\r\nHost: a\r\n\r\n")
    await reader.read(1)
    await asyncio.sleep(0.6)
    length = 0
    try:
        while part := await asyncio.wait_for(reader.read(65536), 30):
            length += len(part)
    except ConnectionError:
        pass
    writer.close()
    return length


async def _served(ask: Callable[[int], Awaitable[Any]]) -> Any:
    app: Any = small_client(small_service()).app

    @app.get("/long")
    async def long() -> Response:
        return Response(b"x" * 50_000_000)

    config = uvicorn.Config(app, http=protocol.ProblemProtocol, ws="none", lifespan="off", log_config=None, port=0)
    server = uvicorn.Server(config)
    serving = asyncio.create_task(server._serve())
    while not server.started:
        await asyncio.sleep(0.01)
    port = server.servers[0].sockets[0].getsockname()[1]
    try:
        return await ask(port)
    finally:
        server.should_exit = True
        await serving


def test_a_head_or_a_refused_body_that_does_not_end_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_HEAD_S", 0.2)
    refused = b"POST /api/asked HTTP/1.1\r\nHost: a\r\nContent-Length: 500\r\n\r\nab"
    sent = [b"", b"GET /healthz HT", refused]
    nothing, half, unwanted = asyncio.run(
        _served(lambda port: asyncio.gather(*(_closed_after(port, one) for one in sent)))
    )
    assert nothing == half == b""
    assert unwanted.startswith(b"HTTP/1.1 401")


@pytest.mark.slow
def test_an_answer_that_nobody_reads_is_dropped(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(protocol, "_READ_S", 0.2)
    assert asyncio.run(_served(_not_read)) < 50_000_000
