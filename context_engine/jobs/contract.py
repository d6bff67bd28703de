"""The published job: its memory as the designed JSON, and the requests and responses of `/api/v1/jobs`."""

from __future__ import annotations

from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, Final, Literal

from pydantic import Field

from context_engine.answer.budget import money_text
from context_engine.core.models import utc_text
from context_engine.jobs.memory import JobFinding, JobMemory, Stage
from context_engine.service.contract.rag import Answered, Asked, Flag, Name

SCHEMA_VERSION: Final = 1
State = Literal["closed", "in_progress", "not_started", "completed"]
_HOUR: Final = timedelta(hours=1)


class CompletedStage(Answered):
    """A question that was put to every document."""

    stage: int
    completed_at: str
    key_findings: tuple[str, ...]
    quality_score: int | None = Field(description="100 * supported sentences / sentences; null without sentences.")
    cost: float
    question: str
    documents: int
    coverage: float | None = Field(description="Share of the documents that answered; null without documents.")


class CurrentStage(Answered):
    """Where the job is: the open stage, else the next."""

    stage: int
    status: Literal["in_progress", "not_started", "closed"]
    question: str | None = None
    read: int = Field(0, description="Documents that were read.")
    documents: int = Field(0, description="Documents in all, at the beginning of the stage.")


class JobConstraints(Answered):
    """What the job must keep to."""

    budget_used: float
    budget_limit: float | None = Field(description="Of the job itself; null: as the settings say.")
    time_elapsed_hours: float = Field(description="From the start to the newest event.")
    rules: tuple[str, ...] = Field(description="Every question is asked under them.")


class JobQuality(Answered):
    """How well questions were answered."""

    asked: int
    answered: int
    sentences: int
    supported: int
    supported_share: float | None
    coverage: float | None


class JobCost(Answered):
    """An exact sum of money."""

    amount: str
    currency: str


class JobFindingOut(Answered):
    """A statement with the words that it rests on."""

    id: str
    text: str
    stage: int = Field(description="0: added by hand, or by a question beside the stages.")
    source_id: str | None
    chunk_id: str | None
    document_id: str | None
    document_version: str | None
    title: str | None
    section: str | None
    page: int | None
    quote: str | None
    tag: dict[str, Any] | None = Field(description="The provenance tag of the passage, without `extra`.")
    content_sha256: str | None
    search_id: str | None = Field(description="Record of the search.")
    answer_id: str | None = Field(description="Record of the answer.")


class JobOut(Answered):
    """A job with everything it remembers; the designed fields come first."""

    job_id: str
    executive_summary: str
    completed_stages: tuple[CompletedStage, ...]
    current_stage: CurrentStage
    constraints: JobConstraints
    risks: tuple[str, ...]
    schema_version: int = SCHEMA_VERSION
    title: str
    domain: str
    state: State
    started_at: str
    closed_at: str | None
    quality: JobQuality
    cost: JobCost
    findings: tuple[JobFindingOut, ...]


class JobLine(Answered):
    """A job in a list."""

    job_id: str
    title: str
    domain: str
    state: State
    started_at: str
    closed_at: str | None
    executive_summary: str
    cost: JobCost


class JobList(Answered):
    """The caller's jobs, newest first."""

    schema_version: int = SCHEMA_VERSION
    jobs: tuple[JobLine, ...]


class JobState(Answered):
    """A job, and what this service does with it."""

    job: JobOut
    running: bool = Field(description="A process is reading its documents now.")
    problem: str | None = Field(description="Why its last run ended early; null: it did not.")


class JobStartRequest(Asked):
    """A job to be started."""

    title: Annotated[str, Field(min_length=1, max_length=200)]
    domain: Name | None = Field(None, description="May be omitted if there is only one.")
    budget_limit: Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=9, allow_inf_nan=False)] | None = Field(
        None, description="Most money that the job's model calls may cost."
    )


class JobNoteRequest(Asked):
    """A constraint, a risk or a finding."""

    kind: Literal["constraint", "risk", "finding"]
    text: Annotated[str, Field(min_length=1, max_length=5_000)]


class JobDocumentIn(Asked):
    """A text document."""

    name: Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9 _-]{0,99}\.(md|txt|html|csv|json)$")] = Field(
        description="File name; without its ending it is the document's id."
    )
    content: Annotated[str, Field(min_length=1, max_length=1_000_000)]


class JobDocumentsRequest(Asked):
    """Documents that only this job searches."""

    documents: Annotated[tuple[JobDocumentIn, ...], Field(min_length=1, max_length=100)]


class JobDocumentsAdded(Answered):
    """What became of the documents."""

    added: int
    replaced: int
    unchanged: int
    problems: tuple[str, ...]


class JobRunRequest(Asked):
    """A question to every document."""

    question: Annotated[str, Field(min_length=1, max_length=2_000)] | None = Field(
        None, description="Begins a stage; null: the open stage goes on."
    )
    use_model: Flag = Field(True, description="Have the configured chat model write; false: quote sentences only.")


class JobDeleted(Answered):
    """The job is gone."""

    job_id: str
    deleted: Literal[True] = True


def job_out(memory: JobMemory) -> JobOut:
    """Return the published form of a memory."""
    quality = memory.quality
    return JobOut(
        job_id=memory.job_id,
        executive_summary=memory.summary,
        completed_stages=tuple(_completed(stage, memory) for stage in memory.stages if stage.completed_at is not None),
        current_stage=_current(memory),
        constraints=JobConstraints(
            budget_used=float(memory.cost),
            budget_limit=None if memory.budget_limit is None else float(memory.budget_limit),
            time_elapsed_hours=round((memory.updated_at - memory.started_at) / _HOUR, 4),
            rules=tuple(note.text for note in memory.constraints),
        ),
        risks=tuple(note.text for note in memory.risks),
        title=memory.title,
        domain=memory.domain,
        state=memory.state,
        started_at=utc_text(memory.started_at),
        closed_at=None if memory.closed_at is None else utc_text(memory.closed_at),
        quality=JobQuality(**quality.model_dump(), supported_share=quality.supported_share, coverage=quality.coverage),
        cost=_cost(memory),
        findings=tuple(map(_finding, memory.findings)),
    )


def job_line(memory: JobMemory) -> JobLine:
    """Return a job as it stands in a list."""
    return JobLine(
        job_id=memory.job_id,
        title=memory.title,
        domain=memory.domain,
        state=memory.state,
        started_at=utc_text(memory.started_at),
        closed_at=None if memory.closed_at is None else utc_text(memory.closed_at),
        executive_summary=memory.summary,
        cost=_cost(memory),
    )


def _completed(stage: Stage, memory: JobMemory) -> CompletedStage:
    assert stage.completed_at is not None
    texts = {finding.id: finding.text for finding in memory.findings}
    return CompletedStage(
        stage=stage.number,
        completed_at=utc_text(stage.completed_at),
        key_findings=tuple(texts[finding_id] for finding_id in stage.key_findings),
        quality_score=stage.quality.score,
        cost=float(stage.cost),
        question=stage.question,
        documents=len(stage.read),
        coverage=stage.quality.coverage,
    )


def _current(memory: JobMemory) -> CurrentStage:
    closed, current = memory.closed_at is not None, memory.current
    if current is None:
        number = len(memory.stages) + (not closed)
        return CurrentStage(stage=number, status="closed" if closed else "not_started")
    return CurrentStage(
        stage=current.number,
        status="closed" if closed else "in_progress",
        question=current.question,
        read=len(current.read),
        documents=current.documents,
    )


def _cost(memory: JobMemory) -> JobCost:
    return JobCost(amount=money_text(memory.cost), currency=memory.currency)


def _finding(finding: JobFinding) -> JobFindingOut:
    cited = finding.citation
    place = dict.fromkeys(_PLACE) if cited is None else {name: getattr(cited, name) for name in _PLACE}
    return JobFindingOut(id=finding.id, text=finding.text, stage=finding.stage, **place)


_PLACE: Final = tuple(name for name in JobFindingOut.model_fields if name not in ("id", "text", "stage"))
