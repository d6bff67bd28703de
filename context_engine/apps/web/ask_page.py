"""The front page: a question, its answer, and the passages behind it."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from context_engine.apps.web.rendering import Page, respond
from context_engine.service.callers import Authenticated
from context_engine.service.deployment import Deployment
from context_engine.service.domains import domains_known_to

_ACTIVE: Final = "ask"
router = APIRouter(include_in_schema=False)


@router.get("/")
async def front_page(request: Request) -> Response:
    """Show the form, and the answer to the question in the address."""

    def work(deployment: Deployment, caller: Authenticated) -> Page:
        domains = domains_known_to(deployment, caller.principal)
        return Page("ask.html", {"active": _ACTIVE, "domains": domains})

    return await respond(request, work)
