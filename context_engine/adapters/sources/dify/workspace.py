"""A Dify workspace behind one connection, shared by all sources that name the connection."""

from __future__ import annotations

import copy
from collections.abc import Callable, Hashable, Mapping
from datetime import datetime
from typing import Any, Final, NamedTuple

from context_engine.adapters.http import Access, ApiClient, Backoff, HttpAnswer, HttpCall, RetryBudget, retried
from context_engine.adapters.http.retry import OUTAGES
from context_engine.adapters.sources.dify.api import DIFY, stated_version
from context_engine.adapters.sources.dify.cache import AnswerCache, Kept
from context_engine.adapters.sources.dify.dataset import DatasetInfo, read_info
from context_engine.adapters.sources.dify.fair_queue import Ticket, shared_queue
from context_engine.adapters.sources.dify.reading import Records, read_records, unnamed, with_documents
from context_engine.core.concurrency.calls import Breaker
from context_engine.core.concurrency.forking import Lock
from context_engine.core.protocols import Clock
from context_engine.errors import SourceError, SourceProtocolError, SourceTimeout, SourceUnavailable
from context_engine.settings.connections import Connection

_COUNTED: Final = (SourceUnavailable, SourceTimeout, SourceProtocolError)  # failures of Dify, not of a caller
_MOST_FAILURES: Final = 5  # in a row, until a dataset is left alone
_PAUSE_S: Final = 30.0
_BACKOFF: Final = Backoff(first_s=0.1, most_s=2.0)
_EMPTY_TTL_S: Final = 30.0  # for an empty dataset: documents may be on their way
_NOT_AGAIN_S: Final = 10.0
_FOREVER: Final = 10.0**9


class DatedRecords(NamedTuple):
    """Records with the time Dify gave them."""

    records: Records
    at: datetime


class Workspace:
    """Calls Dify. Thread-safe; `connect` returns the connection, reading its files again."""

    def __init__(self, connect: Callable[[], Connection], clock: Clock) -> None:
        self._clock, self._client = clock, ApiClient(DIFY, connect, clock)
        self._lock = Lock()
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self._answers: AnswerCache[DatedRecords] = AnswerCache(clock.monotonic)
        self._infos: AnswerCache[DatasetInfo] = AnswerCache(clock.monotonic)
        self._listed: AnswerCache[dict[str, Any]] = AnswerCache(clock.monotonic)
        self._lookups: dict[Hashable, tuple[float, SourceError | None]] = {}
        self.version: str | None = None  # as Dify stated it last

    def access(self) -> Access:
        """Read the connection.

        Raises:
            ConfigError: it is unusable.
        """
        return self._client.access()

    def free_calls(self, access: Access) -> int | None:
        """Return how many calls the rate budget covers now; None: any number."""
        return self._client.free_calls(access)

    def expected_s(self, access: Access, dataset_id: str) -> float:
        """Return the expected seconds of a search of a dataset, from past searches; 0 if unknown."""
        return shared_queue(access.server).expected(dataset_id)

    def info(
        self, dataset_id: str, access: Access, ticket: Ticket, *, ttl_s: float, attempts: int, needed: bool
    ) -> tuple[DatasetInfo | None, SourceError | None]:
        """Return a dataset's description, current or last known, and the error if it is not current.

        If a substitute exists, Dify is called once, for at most half the remaining time, and not again soon after a
        failure.

        Args:
            needed: whether the caller has no substitute for Dify's description.

        Raises:
            SourceError: a definite refusal: wrong key, no such dataset, no access.
        """
        key = (access.server, access.fingerprint, dataset_id)
        hasty = not needed or self._infos.last(key) is not None

        def make() -> Kept[DatasetInfo]:
            now = self._clock.monotonic()
            until, failure = self._lookups.get(key, (now, None))
            if failure is not None and hasty and now < until:
                raise copy.copy(failure)
            if not hasty:
                return self._look_up(dataset_id, access, ticket, ttl_s, attempts)
            due = now + ticket.left() / 2
            brief = Ticket(lambda: due - self._clock.monotonic(), ticket.flow)
            try:
                return self._look_up(dataset_id, access, brief, ttl_s, 1)
            except SourceError as error:
                self._lookups[key] = (self._clock.monotonic() + _NOT_AGAIN_S, error)
                raise

        try:
            kept, stale = self._infos.get(key, make, ttl_s=ttl_s, stale_s=_FOREVER, left=ticket.left)
            return kept.value, stale
        except (*OUTAGES, SourceProtocolError) as error:
            return None, error

    def _look_up(
        self, dataset_id: str, access: Access, ticket: Ticket, ttl_s: float, attempts: int
    ) -> Kept[DatasetInfo]:
        call, tries = HttpCall("GET", f"datasets/{dataset_id}"), RetryBudget(attempts)
        answer = retried(lambda: self._ask(call, access, ticket), tries, ticket.left, _BACKOFF)
        info = read_info(answer.json())
        early = max(ttl_s - _EMPTY_TTL_S, 0.0) if info.documents == 0 else 0.0
        return Kept(info, 2048, True, self._clock.monotonic() - early)

    def retrieve(
        self,
        dataset_id: str,
        body: Mapping[str, Any],
        access: Access,
        ticket: Ticket,
        calls: RetryBudget,
        *,
        ttl_s: float,
        stale_s: float,
    ) -> tuple[DatedRecords, float, SourceError | None]:
        """Return the records of a search, their age in seconds, and the outage if they are stale.

        Raises:
            SourceError: Dify gave no usable answer.
        """
        key = (access.server, dataset_id, _frozen(body))

        def make() -> Kept[DatedRecords]:
            call = HttpCall("POST", f"datasets/{dataset_id}/retrieve", body)
            return retried(lambda: self._retrieve(call, dataset_id, access, ticket), calls, ticket.left, _BACKOFF)

        kept, stale = self._answers.get(key, make, ttl_s=ttl_s, stale_s=stale_s, left=ticket.left)
        return kept.value, self._clock.monotonic() - kept.made, stale

    def page(self, number: int, access: Access, ticket: Ticket, *, attempts: int) -> Any:
        """Return the body of one page of the list of datasets, at most 100 of them.

        Raises:
            SourceError: Dify gave no answer.
        """
        call, tries = HttpCall("GET", f"datasets?page={number}&limit=100"), RetryBudget(attempts)
        # Dify looks at the embedding model of each dataset, which takes long if there are many.
        return retried(lambda: self._ask(call, access, ticket, _TIME_S), tries, ticket.left, _BACKOFF).json()

    def ask(self, call: HttpCall, access: Access, ticket: Ticket, *, most_s: float = 0.0) -> HttpAnswer:
        """Make one call of any kind and return the successful answer.

        Args:
            most_s: longest silence allowed, if longer than the connection's own.

        Raises:
            SourceError: Dify gave no valid answer.
        """
        return self._ask(call, access, ticket, most_s)

    def close(self) -> None:
        """Close the connections; a later search opens new ones."""
        self._client.close()

    def _retrieve(self, call: HttpCall, dataset_id: str, access: Access, ticket: Ticket) -> Kept[DatedRecords]:
        breaker = self._breaker(access, dataset_id)
        wait = breaker.wait_s(self._clock.monotonic())
        if wait > 0:
            problem = f"failed {breaker.failures} times in a row and is not called for another {wait:.0f} s"
            raise SourceUnavailable(problem, retryable=True, retry_after_s=round(wait, 3))
        failure: SourceError | None = None
        try:
            answer = self._ask(call, access, ticket, dataset_id=dataset_id)
            records = read_records(answer.json())
            if unnamed(records):
                records = with_documents(records, self._documents(dataset_id, access, ticket))
            answered = DatedRecords(records, self._clock.now())
            return Kept(answered, len(answer.body) + 1024, not answered.records.bad, self._clock.monotonic())
        except SourceError as error:
            failure = error
            raise
        finally:
            queued = isinstance(failure, SourceTimeout) and ticket.waited_long
            if not queued and (failure is None or isinstance(failure, _COUNTED)):  # not a wrong key or a rate limit
                breaker.note(self._clock.monotonic(), failed=failure is not None)

    def _documents(self, dataset_id: str, access: Access, ticket: Ticket) -> dict[str, Any]:
        """Return the rows of all documents of a dataset by id, at most half a minute old."""
        key = (access.server, access.fingerprint, dataset_id)

        def make() -> Kept[dict[str, Any]]:
            rows = self._list_documents(dataset_id, access, ticket)
            return Kept(rows, 2048 * (len(rows) + 1), True, self._clock.monotonic())

        return self._listed.get(key, make, ttl_s=_EMPTY_TTL_S, stale_s=0.0, left=ticket.left)[0].value

    def _list_documents(self, dataset_id: str, access: Access, ticket: Ticket) -> dict[str, Any]:
        rows: dict[str, Any] = {}
        for number in range(1, _MOST_PAGES):
            call = HttpCall("GET", f"datasets/{dataset_id}/documents?page={number}&limit=100")
            body = self._ask(call, access, ticket).json()
            page = body.get("data") if isinstance(body, Mapping) else None
            if not isinstance(page, list):
                raise SourceProtocolError("Dify's list of documents cannot be read")
            rows |= {row["id"]: row for row in page}
            if len(page) < 100:
                break
        return rows

    def _ask(
        self, call: HttpCall, access: Access, ticket: Ticket, most_s: float = 0.0, dataset_id: str | None = None
    ) -> HttpAnswer:
        """Make one call when its turn comes."""

        def in_turn(make: Callable[[], HttpAnswer]) -> HttpAnswer:
            return self._in_turn(make, access, ticket, dataset_id)

        return self._client.call(call, access, ticket.left, silence_s=most_s, turn=in_turn)

    def _in_turn(
        self, make: Callable[[], HttpAnswer], access: Access, ticket: Ticket, dataset_id: str | None
    ) -> HttpAnswer:
        """Wait for a connection and make a call over it; the duration of a search is recorded."""
        queue = shared_queue(access.server)
        slot = queue.enter(access.connection.max_connections, ticket.flow, ticket.left(), dataset_id)
        ticket.hold(slot)
        started = self._clock.monotonic()
        try:
            answer = make()
            if dataset_id is not None and answer.status == 200:
                queue.measured(dataset_id, self._clock.monotonic() - started)
        finally:
            slot.release()
        self.version = stated_version(answer.headers) or self.version
        return answer

    def _breaker(self, access: Access, dataset_id: str) -> Breaker:
        with self._lock:
            return self._breakers.setdefault((access.server, dataset_id), Breaker(_MOST_FAILURES, _PAUSE_S))


def _frozen(value: Any) -> Any:
    """Return a value usable as a dictionary key."""
    if isinstance(value, Mapping):
        return tuple((name, _frozen(item)) for name, item in sorted(value.items()))
    return tuple(map(_frozen, value)) if isinstance(value, list | tuple) else value


_TIME_S: Final = 60.0
_MOST_PAGES: Final = 1000
_ATTEMPTS: Final = 3


def list_datasets(workspace: Workspace, clock: Clock) -> list[DatasetInfo]:
    """Return the datasets of a workspace, in Dify's order.

    Pages are requested until the total is reached: `has_more` is wrong in some versions.

    Raises:
        ConfigError: the connection is unusable.
        SourceError: Dify gave no usable answer.
    """
    access = workspace.access()
    due = clock.monotonic() + _TIME_S
    ticket = Ticket(lambda: due - clock.monotonic())
    datasets: dict[str, DatasetInfo] = {}
    for number in range(1, _MOST_PAGES):
        body = workspace.page(number, access, ticket, attempts=_ATTEMPTS)
        rows = body.get("data") if isinstance(body, Mapping) else None
        if not isinstance(rows, list):
            raise SourceProtocolError("Dify's list of datasets cannot be read")
        datasets |= {info.dataset_id: info for info in map(read_info, rows)}
        total = body.get("total")
        if not rows or not isinstance(total, int) or number * 100 >= total:
            return list(datasets.values())
    raise SourceProtocolError("Dify's list of datasets does not end")
