"""The tools over streamable HTTP, without sessions: each request is authenticated separately."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, Final

from mcp.server.streamable_http_manager import StreamableHTTPSessionManager
from starlette.exceptions import HTTPException
from starlette.types import Receive, Scope, Send

from context_engine.apps.mcp.addresses import check_host, check_origin
from context_engine.apps.mcp.protocol import Desk, mcp_server
from context_engine.core.models import Settings

_MOST_BYTES: Final = 100_000_000
"""The service in front enforces `server_max_body_bytes`, which is never more."""


class McpEndpoint:
    """An ASGI app for one address; the service in front of it authenticates the caller.

    Args:
        manager: of the SDK, running.
        settings: returns the settings in force.
    """

    def __init__(self, manager: StreamableHTTPSessionManager, settings: Callable[[], Settings]) -> None:
        self._manager, self._settings = manager, settings

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request.

        Raises:
            NotPermitted: its Host or Origin is not allowed.
            HTTPException: 405 for other methods than POST: there are no streams and no sessions.
        """
        settings, headers = self._settings(), _headers(scope)
        local_address = (scope.get("server") or (None,))[0]
        check_host(headers.get("host"), settings, local_address)
        check_origin(headers.get("origin"), settings.server_allowed_origins)
        if scope["method"] != "POST":
            raise HTTPException(405, headers={"Allow": "POST"})
        await self._manager.handle_request(scope, receive, send)


@asynccontextmanager
async def mcp_endpoint(desk: Desk, settings: Callable[[], Settings]) -> AsyncIterator[McpEndpoint]:
    """Yield the endpoint; requests still in progress at the end are cancelled.

    Args:
        desk: works on the calls.
        settings: returns the settings in force; called for every request.
    """
    logging.getLogger("mcp").setLevel(logging.WARNING)  # it logs every request
    manager = StreamableHTTPSessionManager(
        mcp_server(desk), json_response=True, stateless=True, max_request_body_size=_MOST_BYTES
    )
    async with manager.run():
        yield McpEndpoint(manager, settings)


def _headers(scope: Scope) -> dict[str, str]:
    headers: Any = scope["headers"]
    return {name.decode("latin-1"): value.decode("latin-1") for name, value in headers}
