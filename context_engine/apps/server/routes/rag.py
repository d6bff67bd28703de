"""The RAG API: questions, comparisons, contexts, reranking, chunks by id, domains and personas."""

from __future__ import annotations

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel

from context_engine.apps.server.openapi import operation_id
from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import Work, request_id_of, service_of
from context_engine.apps.server.slots import Turn
from context_engine.core.models import Authenticated, Caller
from context_engine.errors import InvalidRequest
from context_engine.service.answers import build_context, rerank_chunks
from context_engine.service.contract.comparison import ComparisonAnswer
from context_engine.service.contract.context import ContextRequest, ContextResponse, RerankRequest, RerankResponse
from context_engine.service.contract.domains import DomainsResponse, PersonasResponse
from context_engine.service.contract.fetch import FetchQuery, FetchResponse
from context_engine.service.contract.rag import RAGPipelineResponse, RAGQueryRequest
from context_engine.service.deployment import Deployment
from context_engine.service.domains import domains_known_to, personas_known_to
from context_engine.service.fetching import fetch
from context_engine.service.query import answer_query
from context_engine.service.request import check_limits, check_sizes

router = APIRouter(tags=["rag"], generate_unique_id_function=operation_id)
_PROBLEMS: Final = may_answer(401, 404, 409, 410, 422, 500, 502, 503)
Compare = Annotated[
    bool | None, Query(description="Give the baseline beside the answer; goes before `compare` of the body.")
]
_CALLER: Final = Caller(app="rag-api")


@router.post("/api/v1/rag/query", summary="Ask a question", response_model=RAGPipelineResponse, responses=_PROBLEMS)
async def query(request: Request, body: RAGQueryRequest, compare: Compare = None) -> Response:
    """Search a domain; return ranked chunks with everything needed to cite them, and the context string for a model."""
    return await _answer(request, body, compare)


@router.post("/api/v1/rag/retrieve", summary="Find chunks", response_model=RAGPipelineResponse, responses=_PROBLEMS)
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
        return answer_query(deployment, body, principal=caller.principal, caller=_CALLER, request_id=request_id)

    return await _search(request, body, work)


async def _search(request: Request, body: RAGQueryRequest, work: Work[BaseModel]) -> Response:
    """Answer a search in its turn; it does not wait longer than its own deadline."""
    service = service_of(request)
    given = body.settings.get("deadline_s")
    deadline_s = given if isinstance(given, (int, float)) and given > 0 else service.settings.deadline_s
    patience_s = min(deadline_s, service.settings.server_max_wait_s)
    return await service.json(request, work, Turn(domain=body.domain, patience_s=patience_s))


@router.post(
    "/api/v1/rag/context",
    summary="Make a context of chunks",
    response_model=ContextResponse,
    responses=may_answer(401, 410, 422, 503),
)
async def context(request: Request, body: ContextRequest) -> Response:
    """Assemble chunks into one text for a model, within limits, with citation labels and a list of omitted chunks."""

    def work(deployment: Deployment, caller: Authenticated) -> ContextResponse:
        return build_context(deployment, body, principal=caller.principal)

    return await service_of(request).json(request, work)


@router.post(
    "/api/v1/rag/rerank", summary="Rank chunks", response_model=RerankResponse, responses=may_answer(401, 422, 500, 503)
)
async def rerank(request: Request, body: RerankRequest) -> Response:
    """Rank chunks by the whole second stage: dedup, relevance filter, reranker, authority, selection."""
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> RerankResponse:
        check_sizes(body.query, {"top_k": body.top_k, "rerank_top_n": body.rerank_top_n}, deployment.settings)
        return rerank_chunks(deployment, body, principal=caller.principal, caller=_CALLER, request_id=request_id)

    return await service_of(request).json(request, work)


@router.post(
    "/api/v1/rag/compare",
    summary="Compare an answer with its baseline",
    response_model=ComparisonAnswer,
    responses=_PROBLEMS,
)
async def compare(request: Request, body: RAGQueryRequest) -> Response:
    """Answer a question and compare the answer with its baseline: two lists, two contexts, the differences and their
    causes.
    """
    return await _compared(request, body)


async def _compared(request: Request, body: RAGQueryRequest) -> Response:
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> ComparisonAnswer:
        if body.cursor is not None:
            raise InvalidRequest("cursor asks for a part of an answer, but a comparison covers the whole: leave it out")
        check_limits(body, deployment.settings)
        asked = body.model_copy(update={"compare": True})
        answer = answer_query(deployment, asked, principal=caller.principal, caller=_CALLER, request_id=request_id)
        assert answer.comparison is not None  # it was asked for
        return ComparisonAnswer.model_construct(success=True, data=answer.comparison)

    return await _search(request, body, work)


@router.post(
    "/api/v1/rag/fetch",
    summary="Fetch chunks by their ids",
    response_model=FetchResponse,
    responses=may_answer(401, 404, 422, 500, 503),
)
async def fetch_chunks(request: Request, body: FetchQuery) -> Response:
    """Return the current chunks with the given ids, or all chunks of a document; unreadable ones are omitted."""
    return await service_of(request).json(request, lambda deployment, caller: fetch(deployment, caller, body))


@router.get(
    "/api/v1/rag/domains",
    summary="List the domains",
    response_model=DomainsResponse,
    responses=may_answer(401),
)
async def domains(request: Request) -> Response:
    """List the domains and sources that the caller may search, and the personas."""
    return await service_of(request).json(
        request, lambda deployment, caller: domains_known_to(deployment, caller.principal)
    )


@router.get(
    "/api/v1/rag/personas",
    summary="List the personas",
    response_model=PersonasResponse,
    responses=may_answer(401),
)
async def personas(request: Request) -> Response:
    """List the personas (`persona_key` of a question) and the settings of each."""
    return await service_of(request).json(
        request, lambda deployment, caller: personas_known_to(deployment, caller.principal)
    )
