"""What a job remembers: stages, findings, quality, cost, constraints and risks."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from context_engine.answer.budget import money_text
from context_engine.core.text import counted


class Remembered(BaseModel):
    """A part of a job's memory; its fields do not change."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class FindingCitation(Remembered):
    """The words of a document that a finding rests on, with the records that show how they were found."""

    source_id: str
    chunk_id: str
    document_id: str | None = None
    document_version: str | None = None
    title: str = ""
    section: str | None = None
    page: int | None = None
    quote: str
    tag: dict[str, Any] = Field({}, description="The provenance tag of the passage, without its `extra`.")
    content_sha256: str = Field("", description="Of the whole passage, in hex.")
    search_id: str = Field(description="Record of the search in the ledger.")
    answer_id: str = Field(description='Record of the answer in the ledger; "" if answers are not recorded.')


class JobFinding(Remembered):
    """A statement that the job keeps.

    Attributes:
        id: equal for equal statements from equal places.
        stage: 1-based number of its stage; 0 if it was added by hand.
        citation: None if it was added by hand.
    """

    id: str
    text: str
    stage: int = 0
    citation: FindingCitation | None = None


class JobNote(Remembered):
    """A constraint or a risk."""

    id: str
    text: str


class Quality(Remembered):
    """How well questions were answered, in counts.

    Attributes:
        asked: questions asked, one for each document that was read.
        answered: those with at least one supported sentence.
        sentences: sentences composed, including those that were withheld.
        supported: sentences that their quotes support.
    """

    asked: int = 0
    answered: int = 0
    sentences: int = 0
    supported: int = 0

    @property
    def supported_share(self) -> float | None:
        """supported / sentences, in [0, 1]; None without sentences."""
        return self.supported / self.sentences if self.sentences else None

    @property
    def coverage(self) -> float | None:
        """answered / asked, in [0, 1]; None if nothing was asked."""
        return self.answered / self.asked if self.asked else None

    @property
    def score(self) -> int | None:
        """100 * supported share, rounded; None without sentences."""
        share = self.supported_share
        return None if share is None else round(100 * share)

    @classmethod
    def of(cls, parts: Iterable[Quality]) -> Quality:
        """Return the sum of counts."""
        rows = [(part.asked, part.answered, part.sentences, part.supported) for part in parts]
        asked, answered, sentences, supported = map(sum, zip((0, 0, 0, 0), *rows))
        return cls(asked=asked, answered=answered, sentences=sentences, supported=supported)


class Stage(Remembered):
    """One question, put to every document of the job.

    Attributes:
        number: 1-based.
        completed_at: None while it runs, or if it was interrupted.
        documents: number of documents at its beginning.
        notes: what a model reads of the job in this stage.
        read: ids of the documents that were read, in order.
        key_findings: ids of its findings, in order.
        cost: in the currency of the job.
    """

    number: int
    question: str
    started_at: datetime
    completed_at: datetime | None = None
    documents: int = 0
    notes: str = ""
    read: tuple[str, ...] = ()
    key_findings: tuple[str, ...] = ()
    quality: Quality = Quality()
    cost: Decimal = Decimal(0)


class JobMemory(Remembered):
    """The memory of a job.

    Attributes:
        starter: id of the principal who started it; None if callers are not told apart.
        budget_limit: most money that its models may cost; None: as the settings say.
        currency: ISO 4217 code of the costs; "" while nothing has cost anything.
        quality: of all stages and of the questions asked beside them.
        cost: the same.
        updated_at: time of its newest event.
    """

    job_id: str
    title: str
    domain: str
    starter: str | None
    started_at: datetime
    updated_at: datetime
    closed_at: datetime | None = None
    budget_limit: Decimal | None = None
    currency: str = ""
    stages: tuple[Stage, ...] = ()
    findings: tuple[JobFinding, ...] = ()
    constraints: tuple[JobNote, ...] = ()
    risks: tuple[JobNote, ...] = ()
    quality: Quality = Quality()
    cost: Decimal = Decimal(0)

    @property
    def current(self) -> Stage | None:
        """The stage that is not completed; None if there is none."""
        return next((stage for stage in self.stages if stage.completed_at is None), None)

    @property
    def state(self) -> Literal["closed", "in_progress", "not_started", "completed"]:
        """Whether it is closed, has an open stage, has no stage yet, or has completed all of them."""
        if self.closed_at is not None:
            return "closed"
        if not self.stages:
            return "not_started"
        return "completed" if self.current is None else "in_progress"

    @property
    def summary(self) -> str:
        """The job in one sentence: its title and its numbers."""
        return f"{self.title}: {self.numbers}"

    @property
    def numbers(self) -> str:
        """Stages, answers, findings, risks and cost, as words; a reading is a question put to a document."""
        done = sum(stage.completed_at is not None for stage in self.stages)
        parts = (
            f"{done} of {counted(len(self.stages), 'stage')} completed",
            f"answers in {self.quality.answered} of {counted(self.quality.asked, 'reading')}",
            *(counted(len(self.findings), "finding"), counted(len(self.risks), "risk")),
            f"cost {self.cost_text}",
        )
        return f"{', '.join(parts)}."

    @property
    def cost_text(self) -> str:
        """The cost with its currency."""
        return f"{money_text(self.cost)} {self.currency}".rstrip()

    def finding(self, finding_id: str) -> JobFinding | None:
        """Return a finding by its id, or None."""
        return next((finding for finding in self.findings if finding.id == finding_id), None)
