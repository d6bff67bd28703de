"""Liveness and readiness."""

from __future__ import annotations

import asyncio
from typing import Literal

from fastapi import APIRouter, Request
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field

from context_engine.apps.server.openapi import operation_id
from context_engine.apps.server.problems import HttpProblem, ProblemField, may_answer
from context_engine.apps.server.service import Service, known_caller, service_of
from context_engine.core.models import NOBODY, Authenticated, Principal
from context_engine.errors import ContextEngineError

router = APIRouter(tags=["health"], generate_unique_id_function=operation_id)
_FIRST_S = 2.0
"""Seconds that the first question waits for the first examination."""


class Health(BaseModel):
    """The process is alive."""

    status: Literal["ok"] = "ok"


class SourceState(BaseModel):
    """Whether one source can be searched."""

    domain: str = Field(description="Empty if a manifest cannot be read, so that its domain is unknown.")
    source_id: str = Field(description="Empty if the whole domain is unusable.")
    state: Literal["ok", "failed"]
    problem: str | None = Field(None, description="Why not; shown to an operator's token only.")
    ann_recall: float | None = Field(
        None,
        description="Watched recall of approximate searches by vectors, 0 to 1, the lowest of the store's access "
        "classes; null where none was measured. Shown to an operator's token only.",
    )


class ReadyReport(BaseModel):
    """Whether the service is ready, and its problems."""

    state: Literal["ready", "degraded"] = Field(
        description="ready; degraded: it answers, but a source that the caller may know is down, a manifest cannot be "
        "used, or a reload failed."
    )
    reload_failed: bool = Field(description="The last new configuration was refused; the previous one is in force.")
    reload_problem: str | None = Field(None, description="Why; shown to an operator's token alone.")
    sources: tuple[SourceState, ...] | None = Field(
        None, description="The sources that the caller may know of; null without a token."
    )


@router.get("/healthz", summary="Whether the process lives", response_model=Health)
async def healthz() -> JSONResponse:
    """Report that the process is alive; no token is needed."""
    return JSONResponse({"status": "ok"})


@router.get(
    "/readyz",
    summary="Whether the service can answer",
    response_model=ReadyReport,
    responses=may_answer(503),
)
async def readyz(request: Request) -> JSONResponse:
    """Report readiness: 200, or 503 during start and stop, or if every source or the check of some tokens fails.

    Without a token the answer has only the state of the manifests and of the sources that anybody may search. With a
    token it names the sources that the caller may know; an operator also sees why a source is down. Sources are
    examined at most every 15 seconds.
    """
    service = service_of(request)
    looking = service.readiness.look()
    if looking is not None and service.readiness.state == "starting":
        await asyncio.wait([asyncio.wrap_future(looking)], timeout=_FIRST_S)
    state, caller = service.readiness.state, known_caller(request)
    if state == "ready" or state == "degraded":
        return JSONResponse(_report(service, caller).model_dump(mode="json"))
    down = [source for source in (_sources(service, caller) if caller else ()) if source.state == "failed"]
    fields = [
        ProblemField(pointer=f"{source.domain}/{source.source_id}", detail=source.problem or "down") for source in down
    ]
    if caller is not None and caller.operator:
        fields += [ProblemField(pointer="tokens", detail=problem) for problem in service.readiness.unchecked()]
    raise HttpProblem("not_ready", f"state: {state}", headers={"Retry-After": "1"}, fields=tuple(fields))


def _report(service: Service, caller: Authenticated | None) -> ReadyReport:
    problem = service.readiness.reload_problem
    known = _sources(service, caller or Authenticated(principal=NOBODY))
    down = any(source.state == "failed" for source in known) or service.readiness.manifest_unusable
    return ReadyReport(
        state="degraded" if down or problem is not None else "ready",
        reload_failed=problem is not None,
        reload_problem=problem if caller is not None and caller.operator else None,
        sources=None if caller is None else known,
    )


def _sources(service: Service, caller: Authenticated) -> tuple[SourceState, ...]:
    known = None if caller.operator else _known(service, caller.principal)
    recalls = service.live.current.engine.watched_recall() if caller.operator else {}
    return tuple(
        SourceState(
            domain=domain,
            source_id=source,
            state="failed" if problem else "ok",
            problem=problem if caller.operator else None,
            ann_recall=recalls.get((domain, source)),
        )
        for (domain, source), problem in service.readiness.problems.items()
        if known is None or (domain, source) in known
    )


def _known(service: Service, principal: Principal) -> frozenset[tuple[str, str]]:
    try:
        domains = service.live.current.known_to(principal).domains
    except ContextEngineError:  # the access policy failed: show nothing to anybody
        return frozenset()
    return frozenset((name, source.id) for name, domain in domains.items() for source in domain.sources)
