"""Passages and documents by their ids."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import service_of
from context_engine.service.contract.fetch import FetchQuery, FetchResponse
from context_engine.service.fetching import fetch

router = APIRouter(prefix="/api/v1/rag", tags=["rag"])
_PROBLEMS: Final = may_answer(401, 404, 422, 500, 503)


@router.post("/fetch", summary="Fetch chunks by their ids", response_model=FetchResponse, responses=_PROBLEMS)
async def fetch_chunks(request: Request, body: FetchQuery) -> Response:
    """Give chunks by their ids, or all of a document, as they are now; unreadable ones are omitted."""
    return await service_of(request).json(request, lambda deployment, caller: fetch(deployment, caller, body))
