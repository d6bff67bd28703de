"""Compare mode: a question's answer beside its baseline."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.routes.rag import PROBLEMS, RAG_CALLER
from context_engine.apps.server.service import request_id_of, service_of
from context_engine.errors import InvalidRequest
from context_engine.service.callers import Authenticated
from context_engine.service.contract.comparison import ComparisonAnswer
from context_engine.service.contract.rag import RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.query import answer_query
from context_engine.service.request import check_limits

router = APIRouter(tags=["rag"])


@router.post(
    "/api/v1/rag/compare",
    summary="Compare an answer with its baseline",
    response_model=ComparisonAnswer,
    responses=PROBLEMS,
)
async def compare(request: Request, body: RAGQueryRequest) -> Response:
    """Answer a question and set the answer beside its baseline: two lists, two contexts, what differs and why."""
    return await _compared(request, body)


@router.post(
    "/api/chat/compare", summary="Compare, for chat applications", response_model=ComparisonAnswer, responses=PROBLEMS
)
async def compare_chat(request: Request, body: RAGQueryRequest) -> Response:
    """The same as `/api/v1/rag/compare`, at the address that chat applications know. `choices` are empty."""
    return await _compared(request, body)


async def _compared(request: Request, body: RAGQueryRequest) -> Response:
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> ComparisonAnswer:
        if body.cursor is not None:
            raise InvalidRequest("cursor asks for a part of an answer, but a comparison covers the whole: leave it out")
        check_limits(body, deployment.settings)
        asked = body.model_copy(update={"compare": True})
        answer = answer_query(deployment, asked, principal=caller.principal, caller=RAG_CALLER, request_id=request_id)
        assert answer.comparison is not None  # it was asked for
        return ComparisonAnswer.model_construct(success=True, data=answer.comparison)

    return await service_of(request).json(request, work)
