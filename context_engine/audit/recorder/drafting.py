"""Records as one ledger has them: its pseudonyms, this version of the code, ids that sort by time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from context_engine.audit.record.drafts import context_draft, fetch_draft, loss_draft, refusal_draft, search_draft
from context_engine.audit.record.pseudonym import Pseudonyms
from context_engine.audit.recorder.jobs import RecordKind
from context_engine.audit.values import Draft
from context_engine.core.models import AccessRecord, Chunk, Context, Principal, SearchRequest, SearchResult
from context_engine.core.models.audit_settings import QueryForm
from context_engine.core.protocols import Clock, IdSource


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
