"""Jobs: `/api/v1/jobs`; a caller has its own jobs, an operator all of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Final

from fastapi import APIRouter, Path, Request, Response
from pydantic import BaseModel

from context_engine.answer.asking import asked_request
from context_engine.answer.contract import AnswerRequest, AnswerResponse, response_of
from context_engine.apps.server.openapi import operation_id
from context_engine.apps.server.problems import may_answer
from context_engine.apps.server.service import caller_of, request_id_of, service_of
from context_engine.core.models import Authenticated, Caller
from context_engine.errors import InvalidRequest
from context_engine.jobs.contract import (
    JobDeleted,
    JobDocumentsAdded,
    JobDocumentsRequest,
    JobList,
    JobNoteRequest,
    JobOut,
    JobRunRequest,
    JobStartRequest,
    JobState,
    job_line,
    job_out,
)
from context_engine.jobs.owned import OwnedJobs
from context_engine.service.deployment import Deployment

router = APIRouter(prefix="/api/v1/jobs", tags=["jobs"], generate_unique_id_function=operation_id)
JobId = Annotated[str, Path(description="The id of a job.", max_length=100)]
_PROBLEMS: Final = may_answer(401, 404, 422, 429, 500, 503)
_ASK_PROBLEMS: Final = may_answer(401, 404, 409, 422, 500, 502, 503)
_CALLER: Final = Caller(app="jobs-api")


@router.get("", summary="List jobs", response_model=JobList, responses=_PROBLEMS)
async def listed(request: Request) -> Response:
    """List the caller's jobs, newest first; an operator sees all jobs."""
    return await _with_jobs(request, lambda jobs: JobList(jobs=tuple(map(job_line, jobs.all()))))


@router.post("", summary="Start a job", response_model=JobOut, responses=_PROBLEMS)
async def start(request: Request, body: JobStartRequest) -> Response:
    """Start a job in a domain: it has a memory, a budget, and documents that no other search finds."""
    return await _with_jobs(request, lambda jobs: job_out(jobs.start(body.title, body.domain, body.budget_limit)))


@router.get("/{job_id}", summary="Read a job", response_model=JobState, responses=_PROBLEMS)
async def show(request: Request, job_id: JobId) -> Response:
    """Return what a job remembers, and how far its run is."""
    return await _with_jobs(request, lambda jobs: _state(request, jobs, job_id))


@router.post("/{job_id}/notes", summary="Add a note", response_model=JobOut, responses=_PROBLEMS)
async def add_note(request: Request, job_id: JobId, body: JobNoteRequest) -> Response:
    """Add a constraint, a risk or a finding; constraints have at most 1,000 tokens together."""
    return await _with_jobs(request, lambda jobs: job_out(jobs.add(job_id, body.kind, body.text)))


@router.post("/{job_id}/documents", summary="Add documents", response_model=JobDocumentsAdded, responses=_PROBLEMS)
async def add_documents(request: Request, job_id: JobId, body: JobDocumentsRequest) -> Response:
    """Add text documents, which this job alone searches; one with the name of another replaces it."""
    texts = {document.name: document.content for document in body.documents}

    def work(jobs: OwnedJobs) -> JobDocumentsAdded:
        report = jobs.add_texts(job_id, texts)
        problems = (*map(str, report.errors), *map(str, report.refused))
        return JobDocumentsAdded(
            added=report.added, replaced=report.replaced, unchanged=report.unchanged, problems=problems
        )

    return await _with_jobs(request, work)


@router.post("/{job_id}/run", summary="Run a job", response_model=JobState, responses=_PROBLEMS)
async def run(request: Request, job_id: JobId, body: JobRunRequest) -> Response:
    """Put a question to every document of a job, in the background; GET of the job shows the progress."""
    caller = caller_of(request)

    def work(jobs: OwnedJobs) -> JobState:
        jobs.check_run(job_id, body.question)
        service_of(request).jobs.start(job_id, caller, body.question, use_model=body.use_model)
        return _state(request, jobs, job_id)

    return await _with_jobs(request, work)


@router.post(
    "/{job_id}/ask",
    summary="Ask under a job",
    response_model=AnswerResponse,
    responses=may_answer(401, 404, 409, 422, 500, 502, 503),
)
async def ask(request: Request, job_id: JobId, body: AnswerRequest) -> Response:
    """Answer a question from the domain and the job's documents, under the job's memory, and keep the findings."""
    if body.stream or body.compare or body.history:
        raise InvalidRequest("stream, compare and history are not for the questions of a job: leave them out")
    request_id = request_id_of(request)

    def work(deployment: Deployment, caller: Authenticated) -> AnswerResponse:
        jobs = OwnedJobs(deployment, caller)
        asked = body.model_copy(update={"domain": body.domain or jobs.memory(job_id).domain})
        search = asked_request(deployment, asked, caller.principal, _CALLER, request_id)
        answer = jobs.ask(
            job_id,
            search,
            use_model=body.use_model,
            policy=body.unsupported,
            workflow=body.workflow,
            rounds=body.rounds,
        )
        return response_of(answer, demo=deployment.demo)

    return await service_of(request).json(request, work)


@router.post("/{job_id}/close", summary="Close a job", response_model=JobOut, responses=_PROBLEMS)
async def close(request: Request, job_id: JobId) -> Response:
    """Close a job: it can be read, and nothing is added any more."""
    return await _with_jobs(request, lambda jobs: job_out(jobs.close(job_id)))


@router.delete("/{job_id}", summary="Delete a job", response_model=JobDeleted, responses=_PROBLEMS)
async def delete(request: Request, job_id: JobId) -> Response:
    """Remove a job with its memory and documents; the record of its searches stays until it is erased there."""

    def work(jobs: OwnedJobs) -> JobDeleted:
        jobs.delete(job_id)
        return JobDeleted(job_id=job_id)

    return await _with_jobs(request, work)


async def _with_jobs(request: Request, work: Callable[[OwnedJobs], BaseModel]) -> Response:
    """Return the answer of work with the caller's jobs."""
    return await service_of(request).json(request, lambda deployment, caller: work(OwnedJobs(deployment, caller)))


def _state(request: Request, jobs: OwnedJobs, job_id: str) -> JobState:
    state = service_of(request).jobs.state(job_id)
    running = state.running or jobs.is_running(job_id)
    job = job_out(jobs.memory(job_id))  # read last: of a run that has ended it holds all findings
    is_broken_off = job.state == "in_progress" and not running
    return JobState(job=job, running=running, problem=state.problem or (_BROKEN_OFF if is_broken_off else None))


_BROKEN_OFF: Final = "the last run ended early in another process, whose log says why: run the job again to go on"
