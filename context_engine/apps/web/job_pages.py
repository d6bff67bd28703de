"""The pages of jobs: a list with a form that starts one, and a page for each with its progress and its findings."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple
from urllib.parse import parse_qs, quote

from fastapi import APIRouter, Request, Response

from context_engine.apps.server.service import caller_of, service_of
from context_engine.apps.web.addresses import document_address
from context_engine.apps.web.rendering import Page, html_response, respond
from context_engine.core.models import Authenticated
from context_engine.errors import InvalidRequest
from context_engine.jobs.compressed import compressed
from context_engine.jobs.memory import JobFinding, JobMemory
from context_engine.jobs.owned import NOTE_KINDS, NoteKind, OwnedJobs
from context_engine.service.deployment import Deployment

JOBS: Final = "/jobs"
_ACTIVE: Final = {"active": "jobs"}
_MOST_FINDINGS: Final = 200
_KINDS: Final[dict[str, NoteKind]] = {kind: kind for kind in ("constraint", "risk", "finding")}
router = APIRouter(prefix=JOBS, include_in_schema=False)


class FindingLine(NamedTuple):
    """A finding as the page shows it.

    Attributes:
        address: where its quote is marked in the document; "" if it was added by hand.
        shows_quote: whether the quote has other words than the finding.
    """

    finding: JobFinding
    address: str
    shows_quote: bool


@router.get("")
async def jobs_page(request: Request) -> Response:
    """Show the caller's jobs, newest first."""
    return await respond(request, lambda deployment, caller: _list(deployment, caller, {}, ""))


@router.post("")
async def start_job(request: Request) -> Response:
    """Start a job and lead to its page."""
    fields = await _fields(request)

    def work(deployment: Deployment, caller: Authenticated) -> str | Page:
        try:
            jobs = OwnedJobs(deployment, caller)
            return jobs.start(fields.get("title", ""), fields.get("domain") or None, _budget(fields)).job_id
        except InvalidRequest as error:
            return _list(deployment, caller, fields, str(error))

    made = await service_of(request).call(request, work)
    return await _shown(request, made)


@router.get("/{job_id}")
async def job_page(request: Request, job_id: str) -> Response:
    """Show what a job remembers, and how far its run is."""
    return await respond(request, lambda deployment, caller: _job(request, OwnedJobs(deployment, caller), job_id))


@router.post("/{job_id}/notes")
async def add_note(request: Request, job_id: str) -> Response:
    """Add a constraint, a risk or a finding."""
    fields = await _fields(request)

    def change(jobs: OwnedJobs) -> None:
        jobs.add(job_id, _kind(fields), fields.get("text", ""))

    return await _changed(request, job_id, change)


@router.post("/{job_id}/run")
async def run_job(request: Request, job_id: str) -> Response:
    """Put a question to every document, in the background."""
    question, caller = (await _fields(request)).get("question") or None, caller_of(request)

    def change(jobs: OwnedJobs) -> None:
        jobs.check_run(job_id, question)
        service_of(request).jobs.start(job_id, caller, question, use_model=True)

    return await _changed(request, job_id, change)


@router.post("/{job_id}/close")
async def close_job(request: Request, job_id: str) -> Response:
    """Close a job."""

    def change(jobs: OwnedJobs) -> None:
        jobs.close(job_id)

    return await _changed(request, job_id, change)


async def _changed(request: Request, job_id: str, change: Callable[[OwnedJobs], None]) -> Response:
    """Make a change and lead to the page of the job; one that is refused is told on that page."""

    def work(deployment: Deployment, caller: Authenticated) -> str | Page:
        jobs = OwnedJobs(deployment, caller)
        jobs.memory(job_id)
        try:
            change(jobs)
        except InvalidRequest as error:
            return _job(request, jobs, job_id, str(error))
        return job_id

    return await _shown(request, await service_of(request).call(request, work))


async def _shown(request: Request, made: str | Page) -> Response:
    """Lead to the page of a job by its id, or show a page."""
    if isinstance(made, str):
        return html_response("", 303, {"Location": f"{JOBS}/{quote(made, safe='')}"})
    page = made._replace(status=422)
    return await respond(request, lambda _deployment, _caller: page)


async def _fields(request: Request) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs((await request.body()).decode("utf-8", "replace")).items()}


def _kind(fields: dict[str, str]) -> NoteKind:
    kind = _KINDS.get(fields.get("kind", ""))
    if kind is None:
        raise InvalidRequest(f"the note needs a kind: {', '.join(NOTE_KINDS)}")
    return kind


def _budget(fields: dict[str, str]) -> Decimal | None:
    text = fields.get("budget", "").strip()
    try:
        return Decimal(text) if text else None
    except InvalidOperation:
        raise InvalidRequest(f"the budget {text[:40]!r} is no amount: write it as 12.50") from None


def _list(deployment: Deployment, caller: Authenticated, fields: dict[str, str], problem: str) -> Page:
    values = {
        "jobs": OwnedJobs(deployment, caller).all(),
        "domains": deployment.known_to(caller.principal).names,
        "fields": fields,
        "problem": problem,
    }
    return Page("jobs.html", {**_ACTIVE, **values})


def _job(request: Request, jobs: OwnedJobs, job_id: str, problem: str = "") -> Page:
    state = service_of(request).jobs.state(job_id)
    running = state.running or jobs.is_running(job_id)
    memory = jobs.memory(job_id)  # read last: of a run that has ended it holds all findings
    newest = memory.findings[::-1][:_MOST_FINDINGS]
    values: dict[str, Any] = {
        "memory": memory,
        "documents": len(jobs.documents(job_id)),
        "running": running,
        "problem": problem or state.problem or "",
        "lines": [_line(memory, finding) for finding in newest],
        "compressed": compressed(memory),
    }
    return Page("job.html", {**_ACTIVE, **values})


def _line(memory: JobMemory, finding: JobFinding) -> FindingLine:
    cited = finding.citation
    if cited is None:
        return FindingLine(finding, "", shows_quote=False)
    address = document_address(
        memory.domain,
        cited.source_id,
        cited.document_id,
        chunk_id=cited.chunk_id,
        version=cited.document_version or "",
        quoted=cited.quote,
    )
    return FindingLine(finding, address, shows_quote=cited.quote.split() != finding.text.split())
