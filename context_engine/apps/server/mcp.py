"""Serves the tools of the Model Context Protocol at `/mcp`.

The gate applies here too: authentication, rate limit and size limit.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from fastapi import APIRouter
from starlette.exceptions import HTTPException
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from context_engine.apps.server.service import Service
from context_engine.apps.server.slots import Turn

if TYPE_CHECKING:
    from context_engine.apps.mcp.http import McpEndpoint
    from context_engine.apps.mcp.protocol import Work
    from context_engine.apps.mcp.reply import SentReply


_running: Final[WeakKeyDictionary[Service, McpEndpoint]] = WeakKeyDictionary()


@asynccontextmanager
async def tools(service: Service) -> AsyncIterator[None]:
    """Serve the tools while the context is open; do nothing without the extra `mcp`."""
    if find_spec("mcp") is None:
        yield
        return
    from context_engine.apps.mcp.http import mcp_endpoint

    async def desk(request: Any, work: Work, domain: str | None) -> SentReply:
        return await service.call(request, work, Turn(domain=domain))

    async with mcp_endpoint(desk, lambda: service.settings) as endpoint:
        _running[service] = endpoint
        try:
            yield
        finally:
            del _running[service]


class _Address:
    """The ASGI app at `/mcp`."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        scope["route"] = _ROUTE  # as FastAPI sets it for its own routes
        endpoint = _running.get(scope["app"].state.service)
        if endpoint is None:
            raise HTTPException(404)
        await endpoint(scope, receive, send)


_ROUTE: Final = Route("/mcp", endpoint=_Address(), include_in_schema=False)
router = APIRouter()
router.routes.append(_ROUTE)
