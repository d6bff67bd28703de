"""Lists personas."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import service_of
from context_engine.service.contract.domains import PersonasResponse
from context_engine.service.domains import personas_known_to

router = APIRouter(prefix="/api/v1/rag", tags=["rag"])


@router.get(
    "/personas",
    summary="List the personas",
    response_model=PersonasResponse,
    responses=may_answer(401),
)
async def personas(request: Request) -> Response:
    """List the personas with what each of them sets: for `persona_key` of a question."""
    return await service_of(request).json(
        request, lambda deployment, caller: personas_known_to(deployment, caller.principal)
    )
