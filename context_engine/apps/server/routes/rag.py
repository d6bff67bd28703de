"""Questions: `query` for chunks with a context string, `retrieve` for chunks alone."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import request_id_of, service_of
from context_engine.core.models import Caller
from context_engine.service.callers import Authenticated
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.query import answer_query
from context_engine.service.request import check_limits

router = APIRouter(prefix="/api/v1/rag", tags=["rag"])
PROBLEMS: Final = may_answer(401, 404, 409, 410, 422, 500, 502, 503)
Compare = Annotated[
    bool | None, Query(description="Give the baseline beside the answer; goes before `compare` of the body.")
]
RAG_CALLER: Final = Caller(app="rag-api")


@router.post("/query", summary="Ask a question", response_model=RAGPipelineResponse, responses=PROBLEMS)
async def query(request: Request, body: RAGQueryRequest, compare: Compare = None) -> Response:
    """Search a domain: ranked chunks, each with what is needed to cite it, and the context string for a model."""
    return await _answer(request, body, compare)


@router.post("/retrieve", summary="Find chunks", response_model=RAGPipelineResponse, responses=PROBLEMS)
async def retrieve(request: Request, body: RAGQueryRequest, compare: Compare = None) -> Response:
    """Search as `query` does, but without model reranker and context string unless the request asks for them."""
    asked = body.model_fields_set
    left_out = {name: False for name in ("enable_reranking", "include_context_string") if name not in asked}
    if "reranking_enabled" in body.settings:
        left_out.pop("enable_reranking", None)
    return await _answer(request, body.model_copy(update=left_out), compare)


async def _answer(request: Request, body: RAGQueryRequest, compare: bool | None) -> Response:
    """Answer a question; `compare` in the address overrides that in the body."""
    if compare is not None:
        body = body.model_copy(update={"compare": compare})
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> RAGPipelineResponse:
        check_limits(body, deployment.settings)
        return answer_query(deployment, body, principal=caller.principal, caller=RAG_CALLER, request_id=request_id)

    return await service_of(request).json(request, work)
