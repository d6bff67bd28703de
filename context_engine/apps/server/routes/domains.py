"""Lists domains and sources."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import service_of
from context_engine.service.contract.domains import DomainsResponse
from context_engine.service.domains import domains_known_to

router = APIRouter(prefix="/api/v1/rag", tags=["rag"])


@router.get(
    "/domains",
    summary="List the domains",
    response_model=DomainsResponse,
    responses=may_answer(401),
)
async def domains(request: Request) -> Response:
    """List the domains and sources that the caller may search, and the personas."""
    return await service_of(request).json(
        request, lambda deployment, caller: domains_known_to(deployment, caller.principal)
    )
