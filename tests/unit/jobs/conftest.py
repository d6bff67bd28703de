"""Events and memories of a fictitious job."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from decimal import Decimal

from context_engine.jobs.events import (
    JobEvent,
    JobStarted,
    QuestionAnswered,
    StageBegun,
    StageCompleted,
    finding_id,
    read_id,
)
from context_engine.jobs.memory import FindingCitation, JobFinding, Quality

BEGIN = datetime(2026, 3, 2, 9, tzinfo=UTC)
JOB = "job-20260302-090000-0a1b2c"


def event(minute: int, id: str, fact: object) -> JobEvent:
    return JobEvent.model_validate({"id": id, "at": BEGIN + timedelta(minutes=minute), "fact": fact})


def citation(document: str, text: str = "The limit is USD 5 million.") -> FindingCitation:
    return FindingCitation(
        source_id=JOB, chunk_id=f"{document}#1", document_id=document, quote=text, search_id="s-1", answer_id="a-1"
    )


def finding(document: str, text: str = "The limit is USD 5 million.", stage: int = 1) -> JobFinding:
    cited = citation(document, text)
    return JobFinding(id=finding_id(text, cited), text=text, stage=stage, citation=cited)


def read(minute: int, document: str, *findings: JobFinding, cost: str = "0.0012", sentences: int = 2) -> JobEvent:
    quality = Quality(asked=1, answered=bool(findings), sentences=sentences, supported=len(findings))
    fact = QuestionAnswered(
        stage=1, document_id=document, findings=findings, quality=quality, cost=Decimal(cost), currency="USD"
    )
    return event(minute, read_id(1, document), fact)


def short_job() -> list[JobEvent]:
    """A job with one completed stage over two documents, of which one answers."""
    return [
        event(0, "started", JobStarted(job_id=JOB, title="Facility review", domain="ORM", starter="jo")),
        event(1, "stage-1", StageBegun(stage=1, question="What is the limit?", documents=2)),
        read(2, "a.md", finding("a.md")),
        read(3, "b.md"),
        event(30, "completed-1", StageCompleted(stage=1)),
    ]
