"""A record that waits to be written, and the drafts it is composed from."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal, Protocol

from context_engine.audit.record.drafts import context_draft, fetch_draft, loss_draft, refusal_draft, search_draft
from context_engine.audit.record.pseudonym import Pseudonyms
from context_engine.audit.values import Draft
from context_engine.core.models import AccessRecord, Chunk, Context, Principal, SearchRequest, SearchResult
from context_engine.core.models.deployment_settings import QueryForm
from context_engine.core.protocols import Clock, IdSource

RecordKind = Literal["search", "rank"]


class RecordLog(Protocol):
    """What of a ledger a writer needs. Its errors say what is wrong and how to mend it."""

    def append(self, drafts: Sequence[Draft]) -> None:
        """Keep the drafts in one transaction, durable on return; one whose id is there already is passed over."""

    def integrate(self, limit: int | None = None) -> int:
        """Give what is pending its place in the log; return how many records that were."""

    def close(self) -> None:
        """Release connections."""


class CheckpointPublisher(Protocol):
    """Makes checkpoints of a log and hands them on, in a thread of its own."""

    def added(self, count: int = 1) -> None:
        """Say that records were appended."""

    def close(self) -> None:
        """Make the last checkpoint; a program or a witness that is slow is left behind."""


class Drafts(Protocol):
    """Makes records, as the ledger that they are for has them: pseudonyms and digests are of its keys."""

    def search(self, result: SearchResult, access: AccessRecord, kind: RecordKind) -> Draft:
        """Return the record of a result."""

    def refusal(
        self, request: SearchRequest, access: AccessRecord, error: Exception, kept: QueryForm, now: datetime
    ) -> Draft:
        """Return the record of a request that came to no result."""

    def context(self, result: SearchResult, context: Context, now: datetime) -> Draft:
        """Return the record of what a model was given to read."""

    def fetch(self, principal: Principal, domain: str, source_id: str, chunks: Sequence[Chunk], now: datetime) -> Draft:
        """Return the record of chunks that were given by their ids."""

    def loss(self, count: int, since: datetime, until: datetime) -> Draft:
        """Return the record of records that there are not."""


@dataclass(frozen=True, slots=True)
class LedgerInUse:
    """A ledger that is open for writing.

    Attributes:
        drafts: makes its records.
        publisher: makes its checkpoints; None for none but those that a command writes.
    """

    log: RecordLog
    drafts: Drafts
    publisher: CheckpointPublisher | None = None


Make = Callable[[Drafts], Draft]


@dataclass(slots=True, eq=False)
class Job:
    """A record to be.

    Attributes:
        make: makes it of frozen values, in the thread that writes.
        at: when it came, in seconds of a clock that never goes back.
        awaited: somebody waits for it: it is tried at once, and once.
        done: set when it is written, or cannot be.
        error: why it could not be written.
        draft: what was made, so that a second try writes the same.
    """

    make: Make
    at: float
    awaited: bool = False
    done: threading.Event = field(default_factory=threading.Event)
    error: Exception | None = None
    draft: Draft | None = None

    def drafted(self, drafts: Drafts) -> Draft:
        """Return the record."""
        if self.draft is None:
            self.draft = self.make(drafts)
        return self.draft

    def finish(self, error: Exception | None = None) -> None:
        """Tell who waits how it went."""
        self.error = error
        self.done.set()


@dataclass(frozen=True, slots=True, kw_only=True)
class LedgerDrafts:
    """Makes the records of a ledger; `Drafts`.

    Attributes:
        pseudonyms: of its callers and questions.
        code_version: of this package.
        clock: the time of what the recorder itself has to say.
        ids: ids of records that are of no search.
    """

    pseudonyms: Pseudonyms
    code_version: str
    clock: Clock
    ids: IdSource

    def search(self, result: SearchResult, access: AccessRecord, kind: RecordKind) -> Draft:
        """Return the record of a result."""
        return search_draft(result, access, pseudonyms=self.pseudonyms, code_version=self.code_version, kind=kind)

    def refusal(
        self, request: SearchRequest, access: AccessRecord, error: Exception, kept: QueryForm, now: datetime
    ) -> Draft:
        """Return the record of a request that came to no result."""
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
        """Return the record of what a model was given to read."""
        return context_draft(result, context, record_id=self.ids.new(now), now=now, code_version=self.code_version)

    def fetch(self, principal: Principal, domain: str, source_id: str, chunks: Sequence[Chunk], now: datetime) -> Draft:
        """Return the record of chunks that were given by their ids."""
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
        """Return the record of records that there are not."""
        now = self.clock.now()
        return loss_draft(count, since, until, record_id=self.ids.new(now), now=now, code_version=self.code_version)
