"""A ledger in memory that can fail, hang and count, and drafts of a name alone."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from datetime import datetime

from context_engine.audit.recorder import LedgerInUse
from context_engine.audit.recorder.jobs import RecordKind
from context_engine.audit.values import Composed, Draft
from context_engine.core.models import AccessRecord, Context, SearchRequest, SearchResult
from context_engine.core.models.deployment_settings import QueryForm
from context_engine.errors import AuditError


def draft_of(record_id: str) -> Draft:
    return Draft(record_id=record_id, contents=(), compose=lambda _: Composed(b"{}"))


class FakeLedger:
    """Keeps record ids. It is down while `down`, and holds writers back while `open_gate` is not set."""

    def __init__(self) -> None:
        self.down = False
        self.unfit: set[str] = set()
        self.open_gate = threading.Event()
        self.open_gate.set()
        self.transactions: list[tuple[str, ...]] = []
        self.calls: list[str] = []
        self.opened = 0
        self.threads: set[str] = set()

    @property
    def kept(self) -> list[str]:
        return [one for transaction in self.transactions for one in transaction]

    def open(self) -> LedgerInUse:
        if self.down:
            raise AuditError("the ledger is down")
        self.opened += 1
        return LedgerInUse(self, FakeDrafts(), FakePublisher(self.calls))

    def append(self, drafts: Sequence[Draft]) -> None:
        self.open_gate.wait(10)
        self.threads.add(threading.current_thread().name)
        if self.down:
            raise AuditError("the ledger is down")
        ids = tuple(one.record_id for one in drafts)
        if self.unfit.intersection(ids):
            raise ValueError("a text that must not be quoted")
        self.transactions.append(tuple(one for one in ids if one not in self.kept))
        self.calls.append("append")

    def integrate(self, limit: int | None = None) -> int:
        self.calls.append("integrate")
        return 0

    def close(self) -> None:
        self.calls.append("close")


class FakePublisher:
    """Notes what it is told."""

    def __init__(self, calls: list[str]) -> None:
        self._calls = calls

    def added(self, count: int = 1) -> None:
        self._calls.append(f"added {count}")

    def close(self) -> None:
        self._calls.append("last checkpoint")


class FakeDrafts:
    """Makes drafts that say what they are of."""

    def search(self, result: SearchResult, access: AccessRecord, kind: RecordKind) -> Draft:
        return draft_of(f"{kind} {result.search_id}")

    def refusal(
        self, request: SearchRequest, access: AccessRecord, error: Exception, kept: QueryForm, now: datetime
    ) -> Draft:
        return draft_of(f"refusal of {request.domain}, {type(error).__name__}, {kept}")

    def context(self, result: SearchResult, context: Context, now: datetime) -> Draft:
        return draft_of(f"context of {result.search_id}")

    def loss(self, count: int, since: datetime, until: datetime) -> Draft:
        return draft_of(f"loss of {count}")
