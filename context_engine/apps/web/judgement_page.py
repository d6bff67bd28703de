"""Thumbs: a reader's judgement of a passage or of an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Final
from urllib.parse import parse_qs

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.service import service_of
from context_engine.apps.web.addresses import own_address
from context_engine.apps.web.rendering import Page, respond
from context_engine.errors import InvalidRequest
from context_engine.service.callers import Authenticated
from context_engine.service.deployment import Deployment
from context_engine.service.judging import Thumb, judge_answer, judge_passage
from context_engine.service.records import own_result

JUDGEMENTS: Final = "/judgements"
_ACTIVE: Final = "ask"
_THUMBS: Final[Mapping[str, Thumb]] = {"up": "up", "down": "down"}
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


def _keeping(fields: Mapping[str, str]) -> Callable[[Deployment, Authenticated], None]:
    """Return the work that keeps the judgement of a form.

    Raises:
        InvalidRequest: the form names no search or no thumb.
    """
    search_id, thumb, at = fields.get("search_id"), _THUMBS.get(fields.get("thumb", "")), datetime.now(UTC)
    if search_id is None or thumb is None:
        raise InvalidRequest("the judgement needs search_id, and thumb as up or down")

    def work(deployment: Deployment, caller: Authenticated) -> None:
        result = own_result(deployment, caller, search_id)
        if "chunk_id" in fields:
            judge_passage(deployment, caller, result, (fields.get("source_id", ""), fields["chunk_id"]), thumb, at)
        else:
            judge_answer(deployment, caller, result, fields.get("answer_id", ""), thumb, at)

    return work
