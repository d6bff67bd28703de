"""Contexts: chunks as one text for a model, with citations, a system prompt, and a chat with the text in it."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import service_of
from context_engine.service.answers import build_context
from context_engine.service.callers import Authenticated
from context_engine.service.contract.context import ContextRequest, ContextResponse
from context_engine.service.deployment import Deployment

router = APIRouter(prefix="/api/v1/rag", tags=["rag"])
_PROBLEMS: Final = may_answer(401, 410, 422, 503)


@router.post("/context", summary="Make a context of chunks", response_model=ContextResponse, responses=_PROBLEMS)
async def context(request: Request, body: ContextRequest) -> Response:
    """Make one text of chunks, within limits, for a model to read: with labels to cite by, and what was left out."""

    def work(deployment: Deployment, caller: Authenticated) -> ContextResponse:
        return build_context(deployment, body, principal=caller.principal)

    return await service_of(request).json(request, work)
