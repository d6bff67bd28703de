"""Judgements of answers, by a person or by a program that hands on those of people."""

from __future__ import annotations

from datetime import UTC, datetime

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import service_of
from context_engine.service.callers import Authenticated
from context_engine.service.contract.feedback import Feedback, FeedbackKept
from context_engine.service.deployment import Deployment
from context_engine.service.judging import keep_feedback

router = APIRouter(prefix="/api/v1/rag", tags=["records"])


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
