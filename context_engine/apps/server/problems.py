"""Errors as RFC 9457 problem details: a stable type, what was wrong, in which field, and how to mend it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Final

from fastapi import Response
from pydantic import BaseModel, ConfigDict, Field

from context_engine.apps.server.catalogue import HTTP_KINDS, ProblemKind, kind_of
from context_engine.errors import ContextEngineError, NotAuthenticated, RetrievalFailed
from context_engine.secrecy import hide_in_error
from context_engine.service.contract.rag import SourceReport
from context_engine.service.response.build import source_reports

logger = logging.getLogger(__name__)

PROBLEM_JSON: Final = "application/problem+json"
_HIDDEN: Final = "the service could not do this; its log has the reason under the request id"


class ProblemField(BaseModel):
    """One field that was wrong."""

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
    search_id: str | None = Field(None, description="Of a search that was recorded and has nothing to show for itself.")
    sources: tuple[SourceReport, ...] = Field((), description="What each source of that search did.")


def may_answer(*statuses: int) -> dict[int | str, dict[str, Any]]:
    """Return the errors that a route declares; what each means stands in the OpenAPI document once for all routes."""
    return {status: {"model": Problem} for status in statuses}


class HttpProblem(Exception):
    """A problem of the request as HTTP has it, which no error of the engine stands for.

    Args:
        code: one of `HTTP_KINDS`.
        detail: what is wrong here.
        headers: of the answer.
        fields: that were wrong.
    """

    def __init__(
        self, code: str, detail: str, *, headers: Mapping[str, str] | None = None, fields: tuple[ProblemField, ...] = ()
    ) -> None:
        self.kind, self.detail = HTTP_KINDS[code], detail
        self.headers, self.fields = dict(headers or {}), fields
        super().__init__(detail)


ProblemForm = Callable[[Problem, Mapping[str, str]], Response]
"""Returns the answer for a problem, given the headers that belong to it."""


def problem_answer(problem: Problem, headers: Mapping[str, str]) -> Response:
    """Return a problem as application/problem+json."""
    return Response(problem.model_dump_json(), problem.status, headers=dict(headers), media_type=PROBLEM_JSON)


def problem_of(error: BaseException, request_id: str) -> tuple[Problem, dict[str, str]]:
    """Return an error as problem details, with the headers of its answer.

    The log has each by the id of its request, with the words of those that the caller is not shown.
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
