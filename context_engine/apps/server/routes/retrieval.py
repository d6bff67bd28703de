"""Dify's External Knowledge API; register the service's address in Dify, which appends `/retrieval`."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response
from pydantic import BaseModel, ConfigDict, Field
from starlette.types import Scope

from context_engine.adapters.sources.dify.api import EXTERNAL_PAUSES_S, EXTERNAL_TRY_S
from context_engine.apps.dify.external import ExternalAnswer, refused
from context_engine.apps.dify.retrieval import answer_request, not_yet, unanswered, unauthorised
from context_engine.apps.server.late import LateSearch, all_tries_s
from context_engine.apps.server.openapi import operation_id
from context_engine.apps.server.problems import Problem
from context_engine.apps.server.service import caller_of, request_id_of, service_of
from context_engine.apps.server.slots import Turn
from context_engine.core.models import Authenticated
from context_engine.errors import ContextEngineError
from context_engine.service.deployment import Deployment

router = APIRouter(tags=["dify"], generate_unique_id_function=operation_id)
_LEAST_S: Final = 0.2
_TO_SPARE_S: Final = 0.2
"""Seconds between a search's deadline and an answer without it; Dify waits five seconds at most."""

_UNUSABLE: Final = 4000
_NOT_YET: Final = 503
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
    503: "The search goes on: the same request again gets its answer.",
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
    deadline_s: Annotated[
        float, Query(description="Seconds for the answer to one request.", ge=_LEAST_S, le=EXTERNAL_TRY_S)
    ] = EXTERNAL_TRY_S,
    retries: Annotated[
        int, Query(description="How often the caller repeats a request after a 503.", ge=0, le=len(EXTERNAL_PAUSES_S))
    ] = len(EXTERNAL_PAUSES_S),
) -> Response:
    """Return ranked records. A failure is reported as a record, because Dify shows any error as "nothing found".

    If a search takes longer than Dify waits, the answer is a 503, after which Dify repeats the request up to three
    times: the search goes on meanwhile, and the repeated request gets its answer. The last try is always a 200.
    """
    body, service, begun = await request.body(), service_of(request), time.monotonic()
    key = (caller_of(request).principal, persona, notice_records, body)
    longest_s = all_tries_s(deadline_s, retries)

    def work(deployment: Deployment, caller: Authenticated) -> ExternalAnswer:
        return answer_request(
            body,
            deployment,
            caller.principal,
            due=begun + longest_s,
            notice_records=notice_records,
            persona=persona or None,
            request_id=request_id_of(request) or None,
            most_records=deployment.settings.server_max_top_k,
            most_query_chars=deployment.settings.server_max_query_chars,
        )

    search = service.late.take(key)
    if search is None:
        turn = Turn(domain=_domain(body), patience_s=longest_s, outlasts=True)
        search = LateSearch(asyncio.ensure_future(service.call(request, work, turn)), 0)
    await asyncio.wait({search.answer}, timeout=deadline_s + _TO_SPARE_S)
    if search.answer.done():
        return _response(_result(search, notice_records=notice_records))
    if search.tries < retries:
        service.late.keep(key, LateSearch(search.answer, search.tries + 1), longest_s)
        return _response(not_yet())
    return _response(unanswered(TimeoutError(_LATE), notice_records=notice_records))


def _result(search: LateSearch[ExternalAnswer], *, notice_records: bool) -> ExternalAnswer:
    try:
        return search.answer.result()
    except ContextEngineError as error:
        return unanswered(error, notice_records=notice_records)


def _domain(body: bytes) -> str | None:
    """Return the domain that a request names, without checking it."""
    try:
        named = json.loads(body).get("knowledge_id") if body else None
    except (ValueError, AttributeError, RecursionError):
        return None
    return (named.rpartition(":")[0] or named) if isinstance(named, str) else None


def problem_form(problem: Problem, headers: Mapping[str, str], _scope: Scope) -> Response:
    """Return a problem from before the route in the format of this API."""
    if problem.status in (401, 403):
        return _response(unauthorised(_NO_TOKEN, missing=problem.code == "no_token"))
    if problem.status >= 500 or problem.status == 429:
        return _response(unanswered(RuntimeError(problem.detail), notice_records=True))
    answer = _response(refused(problem.status, _UNUSABLE, problem.detail))
    answer.headers.update(headers)
    return answer


def _response(answer: ExternalAnswer) -> Response:
    headers = {"Retry-After": "1"} if answer.status == _NOT_YET else {}
    return Response(answer.encoded(), answer.status, headers, media_type="application/json")
