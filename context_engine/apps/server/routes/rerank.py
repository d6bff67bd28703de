"""Ranks chunks that were retrieved elsewhere."""

from __future__ import annotations

from typing import Final

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import request_id_of, service_of
from context_engine.core.models import Caller
from context_engine.service.answers import rerank_chunks
from context_engine.service.callers import Authenticated
from context_engine.service.contract.context import RerankRequest, RerankResponse
from context_engine.service.deployment import Deployment
from context_engine.service.request import check_sizes

router = APIRouter(prefix="/api/v1/rag", tags=["rag"])
_PROBLEMS: Final = may_answer(401, 422, 500, 503)
_CALLER: Final = Caller(app="rag-api")


@router.post("/rerank", summary="Rank chunks", response_model=RerankResponse, responses=_PROBLEMS)
async def rerank(request: Request, body: RerankRequest) -> Response:
    """Rank chunks by the whole second stage: dedup, relevance filter, reranker, authority, selection."""
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> RerankResponse:
        check_sizes(body.query, {"top_k": body.top_k, "rerank_top_n": body.rerank_top_n}, deployment.settings)
        return rerank_chunks(deployment, body, principal=caller.principal, caller=_CALLER, request_id=request_id)

    return await service_of(request).json(request, work)
