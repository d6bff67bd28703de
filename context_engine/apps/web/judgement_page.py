"""Thumbs: a reader's judgement of a passage or of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from context_engine.apps.server.service import service_of
from context_engine.apps.web.addresses import own_address
from context_engine.apps.web.rendering import Page, respond
from context_engine.errors import InvalidRequest
from context_engine.service.callers import Authenticated
from context_engine.service.contract.feedback import Feedback, FeedbackKept
from context_engine.service.deployment import Deployment
from context_engine.service.judging import keep_feedback

JUDGEMENTS: Final = "/judgements"
_ACTIVE: Final = "ask"
_FIELDS: Final = ("search_id", "thumb", "source_id", "chunk_id", "answer_id")
router = APIRouter(include_in_schema=False)


@router.post(JUDGEMENTS)
async def judge(request: Request) -> Response:
    """Keep a judgement; a script gets an empty answer, a form a page that leads back."""
    fields = {name: values[0] for name, values in parse_qs((await request.body()).decode("utf-8", "replace")).items()}
    work = _keeping(fields)
    if "application/json" in request.headers.get("accept", ""):
        await service_of(request).call(request, work)
        return Response(status_code=204)

    def page(deployment: Deployment, caller: Authenticated) -> Page:
        work(deployment, caller)
        return Page("judged.html", {"active": _ACTIVE, "back": own_address(fields.get("back", "/"))})

    return await respond(request, page)


def _keeping(fields: Mapping[str, str]) -> Callable[[Deployment, Authenticated], FeedbackKept]:
    """Return the work that keeps the judgement of a form.

    Raises:
        InvalidRequest: the form names no search or no thumb.
    """
    given, at = {name: fields[name] for name in _FIELDS if fields.get(name)}, datetime.now(UTC)
    try:
        feedback = Feedback.model_validate(given)
    except ValidationError:
        raise InvalidRequest("the judgement needs search_id, and thumb as up or down") from None
    return lambda deployment, caller: keep_feedback(deployment, caller, feedback, at)
