"""Records waiting to be written, and the drafts they are composed from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from context_engine.audit.record.drafts import (
    answer_draft,
    context_draft,
    fetch_draft,
    loss_draft,
    refusal_draft,
    search_draft,
)
from context_engine.audit.record.question import Pseudonyms
from context_engine.audit.values import Draft
from context_engine.core.models import (
    AccessRecord,
    AnswerRecord,
    Chunk,
    Context,
    Principal,
    SearchRequest,
    SearchResult,
)
from context_engine.core.models.deployment_settings import QueryForm
from context_engine.core.protocols import Clock, IdSource

RecordKind = Literal["search", "rank"]


class RecordLog(Protocol):
    """The ledger as the writer uses it. Its errors say what is wrong and how to fix it."""

    def append(self, drafts: Sequence[Draft]) -> None:
        """Store the drafts in one transaction, durably; skip those whose id exists already."""

    def integrate(self, limit: int | None = None) -> int:
        """Move pending records into the log; return their number."""

    def close(self) -> None:
        """Release connections."""


class CheckpointPublisher(Protocol):
    """Makes and delivers checkpoints of a log in a thread of its own."""

    def added(self, count: int = 1) -> None:
        """Count appended records."""

    def close(self) -> None:
        """Make the last checkpoint; slow programs and witnesses are abandoned."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Drafts:
    """Makes the records for a ledger, with pseudonyms and digests under its keys.

    Attributes:
        pseudonyms: of its callers and questions.
        code_version: of this package.
        clock: gives the time of losses.
        ids: ids of records that are not of a search.
    """

    pseudonyms: Pseudonyms
    code_version: str
    clock: Clock
    ids: IdSource

    def search(self, result: SearchResult, access: AccessRecord, kind: RecordKind) -> Draft:
        return search_draft(result, access, pseudonyms=self.pseudonyms, code_version=self.code_version, kind=kind)

    def refusal(
        self, request: SearchRequest, access: AccessRecord, error: Exception, kept: QueryForm, now: datetime
    ) -> Draft:
        return refusal_draft(
            request,
            access,
            error,
            record_id=self.ids.new(now),
            now=now,
            pseudonyms=self.pseudonyms,
            code_version=self.code_version,
            kept=kept,
        )

    def context(self, result: SearchResult, context: Context, now: datetime) -> Draft:
        return context_draft(result, context, record_id=self.ids.new(now), now=now, code_version=self.code_version)

    def answer(self, result: SearchResult, answer: AnswerRecord, record_id: str, now: datetime) -> Draft:
        return answer_draft(
            result,
            answer,
            record_id=record_id,
            now=now,
            pseudonyms=self.pseudonyms,
            code_version=self.code_version,
        )

    def fetch(self, principal: Principal, domain: str, source_id: str, chunks: Sequence[Chunk], now: datetime) -> Draft:
        return fetch_draft(
            principal,
            domain,
            source_id,
            chunks,
            record_id=self.ids.new(now),
            now=now,
            pseudonyms=self.pseudonyms,
            code_version=self.code_version,
        )

    def loss(self, count: int, since: datetime, until: datetime) -> Draft:
        now = self.clock.now()
        return loss_draft(count, since, until, record_id=self.ids.new(now), now=now, code_version=self.code_version)


@dataclass(frozen=True, slots=True)
class LedgerInUse:
    """A ledger open for writing.

    Attributes:
        drafts: makes its records.
        publisher: makes its checkpoints; None: only commands make them.
    """

    log: RecordLog
    drafts: Drafts
    publisher: CheckpointPublisher | None = None


Make = Callable[[Drafts], Draft]


@dataclass(slots=True, eq=False)
class Job:
    """A record to be written.

    Attributes:
        make: composes it from frozen values, in the writing thread.
        at: arrival, in seconds of a monotonic clock.
        awaited: whether a caller waits for the record; then it is tried at once, and only once.
        done: set when it is written, or cannot be.
        error: why it could not be written.
        draft: the composed record, so that a retry writes the same.
    """

    make: Make
    at: float
    awaited: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    draft: Draft | None = None

    def drafted(self, drafts: Drafts) -> Draft:
        """Return the record, composing it once."""
        if self.draft is None:
            self.draft = self.make(drafts)
        return self.draft

    def finish(self, error: Exception | None = None) -> None:
        """Report the outcome to a waiting caller."""
        self.error = error
        self.done.set()
