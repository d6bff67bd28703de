"""Records of answers, their proofs, and judgements of answers."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from fastapi.responses import PlainTextResponse

from context_engine.apps.server.openapi import operation_id
from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import service_of
from context_engine.core.models import Authenticated
from context_engine.service.contract.explanation import Explanation
from context_engine.service.contract.feedback import Feedback, FeedbackKept
from context_engine.service.contract.fetch import RecordResponse
from context_engine.service.deployment import Deployment
from context_engine.service.explaining.explain import explain
from context_engine.service.judging import keep_feedback
from context_engine.service.records import proof_of_record, record_of

router = APIRouter(prefix="/api/v1/rag", tags=["records"], generate_unique_id_function=operation_id)
RecordId = Annotated[str, Path(description="The search_id of an answer.", max_length=200)]
_PROBLEMS: Final = may_answer(401, 403, 404, 409, 422, 429, 503)


@router.get(
    "/records/{record_id}",
    summary="Read a record",
    response_model=None,
    responses={200: {"model": RecordResponse}, **_PROBLEMS},
)
async def record(request: Request, record_id: RecordId) -> Response:
    """Return the record of an answer: callers may read their own records, operators all of them."""
    return await service_of(request).json(request, lambda deployment, caller: record_of(deployment, caller, record_id))


@router.get(
    "/records/{record_id}/explanation",
    summary="Explain an answer",
    response_model=None,
    responses={200: {"model": Explanation}, **_PROBLEMS},
)
async def explanation(request: Request, record_id: RecordId) -> Response:
    """Explain how an answer came about; for some minutes also if searches are not recorded."""
    return await service_of(request).json(request, lambda deployment, caller: explain(deployment, caller, record_id))


@router.get(
    "/records/{record_id}/proof",
    summary="Prove a record",
    response_class=PlainTextResponse,
    responses={200: {"content": {"text/plain": {"schema": {"type": "string"}}}}, **_PROBLEMS},
)
async def proof(request: Request, record_id: RecordId) -> Response:
    """Give the proof that a record is in the log: `check_proof.py` checks it without this service."""
    text = await service_of(request).call(
        request, lambda deployment, caller: proof_of_record(deployment, caller, record_id)
    )
    return Response(text, media_type="text/plain; charset=utf-8")


@router.post(
    "/feedback",
    summary="Judge an answer",
    response_model=FeedbackKept,
    responses=may_answer(401, 404, 409, 422, 500, 503),
)
async def feedback(request: Request, body: Feedback) -> Response:
    """Keep thumbs up or down for a passage or a whole answer; of a person on one thing the last word counts."""
    at = datetime.now(UTC)

    def work(deployment: Deployment, caller: Authenticated) -> FeedbackKept:
        return keep_feedback(deployment, caller, body, at)

    return await service_of(request).json(request, work)
