"""Dify's External Knowledge API; register the service's address in Dify, which appends `/retrieval`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field

from context_engine.apps.dify.external import ExternalAnswer, refused
from context_engine.apps.dify.retrieval import DEADLINE_S, answer_request, unanswered, unauthorised
from context_engine.apps.server.problems import Problem
from context_engine.apps.server.service import request_id_of, service_of
from context_engine.apps.server.slots import Turn
from context_engine.errors import ContextEngineError
from context_engine.service.callers import Authenticated
from context_engine.service.deployment import Deployment

router = APIRouter(tags=["dify"])
_LEAST_S: Final = 0.2
_TO_SPARE_S: Final = 0.2
"""Seconds between a search's deadline and an answer without it; Dify waits five seconds at most."""

_UNUSABLE: Final = 4000
_NO_TOKEN: Final = "the API key of this External Knowledge API is not a valid token of the service"
_LATE: Final = "The service had too much to do to answer in time"


class ExternalRecord(BaseModel):
    """One passage, or a notice: `metadata.notice` is true then."""

    model_config = ConfigDict(frozen=True)

    content: str
    score: float = Field(description="Falls in the order of the ranking, because Dify sorts by it.", ge=0, le=1)
    title: str
    metadata: dict[str, Any] = Field(description="Never null: Dify drops a record whose metadata is no object.")


class ExternalRecords(BaseModel):
    """An answer in Dify's format."""

    model_config = ConfigDict(frozen=True)

    records: tuple[ExternalRecord, ...]
    warnings: tuple[str, ...] = ()
    cut: str = ""


class ExternalRefusal(BaseModel):
    """A refusal in the format of this API."""

    model_config = ConfigDict(frozen=True)

    error_code: int
    error_msg: str


_FIELDS: Final[Mapping[str, Any]] = {
    "knowledge_id": {
        "type": "string",
        "description": "DOMAIN, or DOMAIN:PERSONA.",
        "examples": ["NPA", "NPA:researcher"],
    },
    "query": {"type": "string", "description": "The question, in words.", "examples": ["Who approves a new product?"]},
    "retrieval_setting": {
        "type": ["object", "null"],
        "properties": {
            "top_k": {"type": ["integer", "null"], "minimum": 1},
            "score_threshold": {"type": ["number", "null"], "minimum": 0, "maximum": 1},
        },
        "description": "top_k, 1 or more (100 at most are given); score_threshold, 0 to 1, of the absolute signal.",
    },
    "metadata_condition": {
        "type": ["object", "null"],
        "description": "logical_operator and conditions, which may hold groups of conditions.",
    },
}
_REFUSALS: Final = {
    400: "A request that cannot be used, or an unknown knowledge id where `notice_records` is false.",
    403: "No token that is in force.",
    408: "The body did not arrive in time.",
    413: "The body is too long.",
    415: "The body is not JSON.",
    422: "A parameter of the address that cannot be used.",
    424: "The search failed, and `notice_records` is false.",
}
_BODY: Final = {
    "requestBody": {
        "description": "As Dify sends it; empty, or with an empty question, it is the probe of a registration.",
        "required": False,
        "content": {"application/json": {"schema": {"type": "object", "properties": _FIELDS}}},
    },
    "security": [{"token": []}],
}


@router.post(
    "/retrieval",
    summary="Answer a knowledge base of Dify",
    responses={
        200: {"model": ExternalRecords},
        **{status: {"model": ExternalRefusal, "description": meaning} for status, meaning in _REFUSALS.items()},
    },
    openapi_extra=_BODY,
)
@router.post("//retrieval", include_in_schema=False)  # registered with a slash at its end
async def retrieval(
    request: Request,
    notice_records: Annotated[bool, Query(description="Report failures in a record.")] = True,
    persona: Annotated[
        str | None, Query(description="The persona if the knowledge id names none.", max_length=200)
    ] = None,
    deadline_s: Annotated[float, Query(description="Seconds for the answer.", ge=_LEAST_S, le=DEADLINE_S)] = DEADLINE_S,
) -> Response:
    """Return ranked records. A failure is reported as a record, because Dify shows any error as "nothing found".

    If a search takes too long or the service is full, the answer is such a record: after a 503 Dify would call three
    more times within four seconds, and then show "nothing found".
    """
    due = time.monotonic() + deadline_s
    body = await request.body()

    def work(deployment: Deployment, caller: Authenticated) -> ExternalAnswer:
        return answer_request(
            body,
            deployment,
            caller.principal,
            due=due,
            notice_records=notice_records,
            persona=persona or None,
            request_id=request_id_of(request) or None,
            most_records=deployment.settings.server_max_top_k,
            most_query_chars=deployment.settings.server_max_query_chars,
        )

    try:
        async with asyncio.timeout(deadline_s + _TO_SPARE_S):
            return _response(await service_of(request).call(request, work, Turn(domain=_domain(body))))
    except TimeoutError:
        return _response(unanswered(TimeoutError(_LATE), notice_records=notice_records))
    except ContextEngineError as error:
        return _response(unanswered(error, notice_records=notice_records))


def _domain(body: bytes) -> str | None:
    """Return the domain that a request names, without checking it."""
    try:
        named = json.loads(body).get("knowledge_id") if body else None
    except (ValueError, AttributeError, RecursionError):
        return None
    return (named.rpartition(":")[0] or named) if isinstance(named, str) else None


def problem_form(problem: Problem, headers: Mapping[str, str]) -> Response:
    """Return a problem from before the route in the format of this API."""
    if problem.status in (401, 403):
        return _response(unauthorised(_NO_TOKEN, missing=problem.code == "no_token"))
    if problem.status >= 500 or problem.status == 429:
        return _response(unanswered(RuntimeError(problem.detail), notice_records=True))
    answer = _response(refused(problem.status, _UNUSABLE, problem.detail))
    answer.headers.update(headers)
    return answer


def _response(answer: ExternalAnswer) -> Response:
    return Response(answer.encoded(), answer.status, media_type="application/json")
