"""The events of a job, and its memory as a pure function of them."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Annotated, Final, Literal, TypeVar

from pydantic import Field

from context_engine.answer.budget import total
from context_engine.errors import JobNotFound, StoreCorrupt
from context_engine.jobs.memory import FindingCitation, JobFinding, JobMemory, JobNote, Quality, Remembered, Stage

JOB_ID: Final = re.compile(r"job-\d{8}-\d{6}-[0-9a-f]{6}")
_ID_DIGITS: Final = 10


class JobStarted(Remembered):
    """The job exists from here on."""

    kind: Literal["started"] = "started"
    job_id: str
    title: str
    domain: str
    starter: str | None = None
    budget_limit: Decimal | None = None


class ConstraintAdded(Remembered):
    """A rule that every later question is asked under."""

    kind: Literal["constraint"] = "constraint"
    text: str


class RiskAdded(Remembered):
    """Something that may go wrong."""

    kind: Literal["risk"] = "risk"
    text: str


class FindingAdded(Remembered):
    """A finding that was added by hand."""

    kind: Literal["finding"] = "finding"
    text: str


class StageBegun(Remembered):
    """A question that is put to every document.

    Attributes:
        documents: their number.
        notes: the compressed memory before the stage, which a model reads with each of its documents.
    """

    kind: Literal["stage_begun"] = "stage_begun"
    stage: int
    question: str
    documents: int
    notes: str = ""


class QuestionAnswered(Remembered):
    """What one question gave, from one document of a stage, or beside the stages.

    Attributes:
        stage: 1-based; 0 for a question asked beside the stages.
        document_id: the document it was put to; None: to all.
        currency: of the cost; "" if it cost nothing.
    """

    kind: Literal["answered"] = "answered"
    stage: int = 0
    document_id: str | None = None
    findings: tuple[JobFinding, ...] = ()
    quality: Quality
    cost: Decimal = Decimal(0)
    currency: str = ""


class StageCompleted(Remembered):
    """Every document of a stage was read."""

    kind: Literal["stage_completed"] = "stage_completed"
    stage: int


class JobClosed(Remembered):
    """Nothing is added any more."""

    kind: Literal["closed"] = "closed"


Fact = Annotated[
    JobStarted
    | ConstraintAdded
    | RiskAdded
    | FindingAdded
    | StageBegun
    | QuestionAnswered
    | StageCompleted
    | JobClosed,
    Field(discriminator="kind"),
]
F = TypeVar("F", bound=Remembered)


class JobEvent(Remembered):
    """Something that happened to a job.

    Attributes:
        id: unique in the job; an event that is written twice counts once.
        at: aware, UTC.
    """

    id: str
    at: datetime
    fact: Fact


def read_id(stage: int, document_id: str) -> str:
    """Return the id of the event that a document was read in a stage."""
    return f"read-{stage}-{document_id}"


def finding_id(text: str, citation: FindingCitation | None = None) -> str:
    """Return the id of a finding: the same for the same words from the same passage."""
    place = ("", "") if citation is None else (citation.source_id, citation.chunk_id)
    return "f-" + hashlib.sha256("\0".join((*place, text)).encode()).hexdigest()[:_ID_DIGITS]


def memory_of(events: Iterable[JobEvent]) -> JobMemory:
    """Return the memory that events make, whatever their order and however often each is given.

    Raises:
        StoreCorrupt: there is no event that starts the job.
    """
    unique = {event.id: event for event in events}
    ordered = sorted(unique.values(), key=lambda event: (event.at, event.id))
    begin = next((event for event in ordered if isinstance(event.fact, JobStarted)), None)
    if begin is None or not isinstance(begin.fact, JobStarted):
        raise StoreCorrupt("the job has no event that starts it: delete it with 'context-engine job delete'")
    started, answered = begin.fact, _facts(ordered, QuestionAnswered)
    return JobMemory(
        job_id=started.job_id,
        title=started.title,
        domain=started.domain,
        starter=started.starter,
        started_at=begin.at,
        updated_at=ordered[-1].at,
        closed_at=next((event.at for event in ordered if isinstance(event.fact, JobClosed)), None),
        budget_limit=started.budget_limit,
        currency=next((fact.currency for fact in answered if fact.currency), ""),
        stages=_stages(ordered, answered),
        findings=_findings(ordered),
        constraints=_notes(ordered, ConstraintAdded),
        risks=_notes(ordered, RiskAdded),
        quality=Quality.of(fact.quality for fact in answered),
        cost=total(fact.cost for fact in answered),
    )


def _facts(events: Sequence[JobEvent], kind: type[F]) -> list[F]:
    return [event.fact for event in events if isinstance(event.fact, kind)]


def _stages(events: Sequence[JobEvent], answered: Sequence[QuestionAnswered]) -> tuple[Stage, ...]:
    ended = {event.fact.stage: event.at for event in reversed(events) if isinstance(event.fact, StageCompleted)}
    begun = {event.fact.stage: event for event in reversed(events) if isinstance(event.fact, StageBegun)}
    return tuple(_stage(begun[number], ended.get(number), answered) for number in sorted(begun))


def _stage(begin: JobEvent, ended: datetime | None, answered: Sequence[QuestionAnswered]) -> Stage:
    assert isinstance(begin.fact, StageBegun)
    own = [fact for fact in answered if fact.stage == begin.fact.stage]
    return Stage(
        number=begin.fact.stage,
        question=begin.fact.question,
        started_at=begin.at,
        completed_at=ended,
        documents=begin.fact.documents,
        notes=begin.fact.notes,
        read=tuple(fact.document_id for fact in own if fact.document_id is not None),
        key_findings=tuple(dict.fromkeys(finding.id for fact in own for finding in fact.findings)),
        quality=Quality.of(fact.quality for fact in own),
        cost=total(fact.cost for fact in own),
    )


def _findings(events: Sequence[JobEvent]) -> tuple[JobFinding, ...]:
    """Return every finding once, in the order in which it was first made."""
    findings: dict[str, JobFinding] = {}
    for event in events:
        match event.fact:
            case QuestionAnswered(findings=made):
                for finding in made:
                    findings.setdefault(finding.id, finding)
            case FindingAdded(text=text):
                findings.setdefault(finding_id(text), JobFinding(id=finding_id(text), text=text))
    return tuple(findings.values())


def _notes(events: Sequence[JobEvent], kind: type[ConstraintAdded] | type[RiskAdded]) -> tuple[JobNote, ...]:
    return tuple(JobNote(id=event.id, text=event.fact.text) for event in events if isinstance(event.fact, kind))


def no_job(job_id: str) -> JobNotFound:
    """Return the error for a job that does not exist, or is not the caller's."""
    return JobNotFound(
        f"there is no job {job_id[:60]!r} of yours: list them with 'context-engine job list', over MCP with job_show"
    )
