"""Errors as RFC 9457 problem details: kinds, faulty fields and remedies."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from math import ceil
from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field
from pydantic_core import ErrorDetails
from starlette.types import Scope

from context_engine import errors
from context_engine.errors import ContextEngineError, NotAuthenticated, RetrievalFailed, closest
from context_engine.secrecy import hide_in_error
from context_engine.service.contract.rag import SourceReport
from context_engine.service.response import source_reports
from context_engine.settings.messages import allowed_values, field_problem

logger = logging.getLogger(__name__)
PROBLEM_JSON: Final = "application/problem+json"
_HIDDEN: Final = "the service could not do this; its log has the reason under the request id"


class ProblemField(BaseModel):
    """An invalid field."""

    model_config = ConfigDict(frozen=True)

    pointer: str = Field(description="JSON Pointer (RFC 6901) into the request's body, or the name of a parameter.")
    detail: str
    mend: str = Field("", description="What to send instead.")


class Problem(BaseModel):
    """The body of every answer that is an error, as application/problem+json."""

    model_config = ConfigDict(frozen=True)

    type: str = Field(description="Names the kind of the error; it does not change: urn:context-engine:problem:CODE.")
    title: str
    status: int
    detail: str
    instance: str = Field(description="The id of the request: X-Request-Id of the answer.")
    code: str
    mend: str = Field("", description="What to do about it.")
    errors: tuple[ProblemField, ...] = ()
    search_id: str | None = Field(None, description="Of a recorded search without a result.")
    sources: tuple[SourceReport, ...] = Field((), description="What each source of that search did.")


def may_answer(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the error responses of a route; the OpenAPI document describes each once for all routes."""
    return {status: {"model": Problem} for status in statuses}


class HttpProblem(Exception):
    """A problem of the HTTP request that is not an error of the engine.

    Args:
        code: one of `HTTP_KINDS`.
        detail: the problem of this request.
        headers: headers of the answer.
        fields: the invalid fields.
    """

    def __init__(
        self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, fields: tuple[ProblemField, ...] = ()
    ) -> None:
        self.kind, self.detail = HTTP_KINDS[code], detail
        self.headers, self.fields = dict(headers or {}), fields
        super().__init__(detail)


ProblemForm = Callable[[Problem, Mapping[str, str], Scope], Response]
"""Makes the answer from a problem, its headers and the ASGI scope of the request."""


def problem_answer(problem: Problem, headers: Mapping[str, str], _scope: Scope) -> Response:
    """Return a problem as application/problem+json."""
    return Response(problem.model_dump_json(), problem.status, headers=dict(headers), media_type=PROBLEM_JSON)


def problem_of(error: BaseException, request_id: str) -> tuple[Problem, dict[str, str]]:
    """Return an error as problem details, with the headers of its answer.

    The log has every error under the request id, including messages that are hidden from the caller.
    """
    kind = _kind(error)
    if kind.shown:
        logger.info("request %s: %d %s", request_id, kind.status, kind.code)
    else:
        logger.error("request %s: %s: %s", request_id, type(error).__name__, error, exc_info=_trace(error, kind))
    problem = Problem(
        type=kind.type,
        title=kind.title,
        status=kind.status,
        detail=hide_in_error(_detail(error, kind)),
        instance=request_id,
        code=kind.code,
        mend=kind.mend,
        errors=error.fields if isinstance(error, HttpProblem) else (),
        **_of_search(error),
    )
    return problem, _headers(error)


def _of_search(error: BaseException) -> dict[str, Any]:
    result = error.result if isinstance(error, RetrievalFailed) else None
    return {} if result is None else {"search_id": result.search_id, "sources": source_reports(result.sources)}


def _kind(error: BaseException) -> ProblemKind:
    if isinstance(error, HttpProblem):
        return error.kind
    return kind_of(type(error)) if isinstance(error, ContextEngineError) else HTTP_KINDS["internal_error"]


def _detail(error: BaseException, kind: ProblemKind) -> str:
    if isinstance(error, HttpProblem):
        return error.detail
    return str(error) if kind.shown else _HIDDEN


def _trace(error: BaseException, kind: ProblemKind) -> BaseException | None:
    return error if kind.code == "internal_error" else None


def _headers(error: BaseException) -> dict[str, str]:
    if isinstance(error, HttpProblem):
        return error.headers
    if isinstance(error, NotAuthenticated):
        return {"WWW-Authenticate": 'Bearer realm="context-engine"'}
    after_s: float | None = getattr(error, "retry_after_s", None)
    if after_s is None and _kind(error).status != 503:
        return {}
    return {"Retry-After": str(max(1, ceil(after_s or 1.0)))}


TYPE_PREFIX: Final = "urn:context-engine:problem:"


@dataclass(frozen=True, slots=True)
class ProblemKind:
    """One kind of problem.

    Attributes:
        code: stable; its type is `urn:context-engine:problem:CODE`.
        status: of HTTP.
        meaning: one sentence.
        mend: how the caller can solve it.
        shown: whether the caller sees the error's message; False: only the operator's log has it.
    """

    code: str
    status: int
    meaning: str
    mend: str
    shown: bool = True

    @property
    def type(self) -> str:
        """The URN that names the kind."""
        return TYPE_PREFIX + self.code

    @property
    def title(self) -> str:
        """The code in words."""
        return self.code.replace("_", " ")


_ASK_OPERATOR: Final = "Tell the operator the request id: the log of the service has the reason under it."
_LATER: Final = "Ask again after the seconds of Retry-After."

_OF_ERRORS: Final[tuple[tuple[type[ContextEngineError], int, str, bool], ...]] = (
    (errors.NotAuthenticated, 401, "Do as the detail says, or ask the operator for a token.", True),
    (errors.TokensUnchecked, 503, _LATER, True),
    (errors.NotPermitted, 403, "Do as the detail says, or use a token that may do this.", True),
    (errors.UnknownDomain, 404, "Name a domain that GET /api/v1/rag/domains lists.", True),
    (errors.RecordNotWritten, 404, "Ask again after the seconds of Retry-After: it is being written.", True),
    (errors.RecordNotFound, 404, "Send the search_id of an answer that this token was given.", True),
    (errors.JobNotFound, 404, "Name a job that GET /api/v1/jobs lists.", True),
    (errors.CursorExpired, 410, "Ask the question again and read its parts in order.", True),
    (errors.InvalidRequest, 422, "Correct what 'detail' and 'errors' name.", True),
    (errors.EvidenceIncomplete, 409, "Ask without 'strict', or require less evidence.", True),
    (errors.AuditOff, 409, "Not available: this service does not record its searches.", True),
    (errors.LedgerNotFound, 404, "Ask a question first: the first record makes the ledger.", True),
    (errors.QueryNotRecorded, 409, "Not available: the question was not recorded, or was erased.", True),
    (errors.Overloaded, 503, _LATER, True),
    (errors.AllSourcesFailed, 502, "Ask again later; /readyz says which source is down.", True),
    (errors.RetrievalFailed, 502, "Ask again later; /readyz says which source is down.", True),
    (errors.FetchUnsupported, 501, "Search instead: the source cannot give chunks by their ids.", True),
    (errors.SourceTimeout, 504, "Ask again later.", True),
    (errors.SourceRateLimited, 503, _LATER, True),
    (errors.SourceBusy, 503, _LATER, True),
    (errors.SourceError, 502, "Ask again later; /readyz says which source is down.", True),
    (errors.CostLimitReached, 429, "Ask for a shorter answer, or ask again when the limit is free.", True),
    (errors.ChatModelError, 502, "Ask again later, or ask for passages instead of an answer.", False),
    (errors.AuditUnavailable, 503, _LATER, False),
    (errors.StoreLocked, 503, _LATER, False),
    (errors.JobsUnavailable, 503, _LATER, False),
    (ContextEngineError, 500, _ASK_OPERATOR, False),
)


def kind_of(error: type[ContextEngineError]) -> ProblemKind:
    """Return the kind of an error's class."""
    row = next(row for row in _OF_ERRORS if issubclass(error, row[0]))
    meaning = (error.__doc__ or "").partition("\n")[0]
    return ProblemKind(error.code, row[1], meaning, row[2], row[3])


HTTP_KINDS: Final[Mapping[str, ProblemKind]] = {
    kind.code: kind
    for kind in (
        ProblemKind(
            "no_token",
            401,
            "A request of Dify's External Knowledge API has no Authorization header in the form 'Bearer TOKEN'.",
            "Set the API key of the External Knowledge API in Dify.",
        ),
        ProblemKind("malformed_request", 400, "The request is no sound HTTP or JSON.", "Send what 'detail' asks for."),
        ProblemKind(
            "cross_site",
            403,
            "A page of another site sent a form to this service, or a program said so.",
            "Open the page of this service and send its form.",
        ),
        ProblemKind("not_found", 404, "There is nothing at this address.", "See /openapi.json for the addresses."),
        ProblemKind("method_not_allowed", 405, "The address has no such method.", "Use one that 'Allow' names."),
        ProblemKind("body_timeout", 408, "The body did not arrive in time.", "Send the request again, whole."),
        ProblemKind("body_too_large", 413, "The body is longer than this service takes.", "Send less."),
        ProblemKind("unsupported_media_type", 415, "The body is not JSON.", "Send JSON as 'application/json'."),
        kind_of(errors.InvalidRequest),
        ProblemKind("rate_exceeded", 429, "The principal has asked more often than its rate allows.", _LATER),
        ProblemKind("http_error", 400, "HTTP refused the request.", "See /openapi.json for what is taken."),
        ProblemKind("internal_error", 500, "The service failed.", _ASK_OPERATOR, shown=False),
        ProblemKind("not_ready", 503, "The service starts, stops, or can reach no source.", _LATER),
    )
}
"""Problems that are not errors of the engine, by code."""


def kinds() -> Iterator[ProblemKind]:
    """Yield every kind once, by status and code."""
    classes = (getattr(errors, name) for name in errors.__all__)
    of_errors = [
        kind_of(error) for error in classes if isinstance(error, type) and issubclass(error, ContextEngineError)
    ]
    by_code = {kind.code: kind for kind in (*of_errors, *HTTP_KINDS.values())}
    yield from sorted(by_code.values(), key=lambda kind: (kind.status, kind.code))


_MOST: Final = 20
_LONGEST: Final = 300


def problem_fields(
    errors: Iterable[ErrorDetails], model: type[BaseModel] | None, sent: Any = None
) -> tuple[ProblemField, ...]:
    """Return the invalid fields of a validation, at most 20.

    Args:
        errors: errors with their locations: `body` or `query` first, then the path inside.
        model: the body's model, for field names; None if unknown.
        sent: the body; a pointer leads to a value in it or to a missing one.
    """
    by_pointer: dict[str, ProblemField] = {}
    for details in errors:
        place, *inside = details["loc"] or ("body",)
        where = _place(inside, sent, missing=details["type"] == "missing")
        pointer = _pointer(where) if place == "body" else ".".join(map(str, inside))
        if pointer not in by_pointer:
            by_pointer[pointer] = ProblemField(
                pointer=pointer, detail=_field_detail(details, inside, model), mend=_mend(details, inside, model)
            )
        if len(by_pointer) == _MOST:
            break
    return tuple(by_pointer.values())


def _place(inside: list[Any], sent: Any, *, missing: bool) -> list[Any]:
    """Return the path to a value without pydantic's steps for union members, such as `str`."""
    way: list[Any] = []
    for at, step in enumerate(inside):
        if isinstance(sent, Mapping) and (step in sent or (missing and at == len(inside) - 1)):
            sent = sent.get(step)
        elif isinstance(sent, list | tuple) and isinstance(step, int) and step < len(sent):
            sent = sent[step]
        else:
            continue
        way.append(step)
    return way


def _pointer(inside: list[Any]) -> str:
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1")[:100] for step in inside)


def _field_detail(details: ErrorDetails, inside: list[Any], model: type[BaseModel] | None) -> str:
    text = field_problem(details, tuple(inside), model or BaseModel)
    return hide_in_error(text)[:_LONGEST]


def _mend(details: ErrorDetails, inside: list[Any], model: type[BaseModel] | None) -> str:
    if details["type"] == "missing":
        return "send it"
    if details["type"] == "extra_forbidden":
        meant = closest(str(inside[-1]), model.model_fields) if model and len(inside) == 1 else None
        return f"write {meant!r}" if meant else "leave it out"
    schema = _properties(model).get(str(inside[0])) if model and inside else None
    return f"send {allowed_values(schema)}" if schema else "send a value of the type that /openapi.json names"


@lru_cache(64)
def _properties(model: type[BaseModel]) -> Mapping[str, Any]:
    properties: Mapping[str, Any] = model.model_json_schema().get("properties", {})
    return properties
