"""Stage 1: every source called at once, each with a time limit; what one does never holds up the others.

Sources that one store holds are searched together where they can be, in one call; what comes of it is each one's own.
Each source is behind a bulkhead that bounds its parallel calls; while a call of a source is overdue the source is
busy at once, so one that never returns costs one search its time limit, and neither the next searches nor process exit
wait for it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from context_engine.core.concurrency.calls import EXECUTOR, Bulkhead, Busy, countdown, wait_all
from context_engine.core.engine.admission import ValidatedAnswer, validate_answer
from context_engine.core.engine.permission import fetched_chunks, readable
from context_engine.core.engine.sanitize_chunk import sanitized_error
from context_engine.core.models import Chunk, Classification, FetchRequest, SourceAnswer, SourceQuery
from context_engine.core.protocols import Clock, JointlySearchable, Preparable, Source
from context_engine.errors import SourceBusy, SourceError, SourceTimeout, source_error_from

logger = logging.getLogger(__name__)


class SourceReply(NamedTuple):
    """What came of one call for `requested_top_k` candidates: a validated answer or an error, never both."""

    answer: ValidatedAnswer | None
    error: SourceError | None
    elapsed_ms: float
    retrieved_at: Any = None
    requested_top_k: int = 0

    @property
    def failures(self) -> Sequence[SourceError]:
        """Its error, or those of the parts of the source that failed."""
        if self.error is not None:
            return (self.error,)
        return () if self.answer is None else self.answer.failures


class SourceCall(NamedTuple):
    """One query for one source."""

    source: SourceBulkhead
    query: SourceQuery


class _Entered(NamedTuple):
    """A source that a call of several has begun to ask, and what is to be called when that has ended."""

    source: SourceBulkhead
    future: Future[SourceReply]
    leave: Callable[[], None]


class SourceBulkhead:
    """A source, and the calls to it that are under way.

    Args:
        source_id: the id of the manifest's source.
        source: the source.
        clock: the time.
        declared: the classification of the source.
    """

    def __init__(self, source_id: str, source: Source, clock: Clock, declared: Classification) -> None:
        self.source_id, self.source = source_id, source
        self._clock, self._declared = clock, declared
        self._keeps_classes = getattr(source, "access_classes", False) is True
        self._valid_chunks = getattr(source, "valid_chunks", False) is True
        self._joint = source if isinstance(source, JointlySearchable) else None
        self._preparable = source if isinstance(source, Preparable) else None
        self._bulkhead = Bulkhead(f"source-{source_id}")

    def submit(self, query: SourceQuery, left: Callable[[], float], limit: int) -> Future[SourceReply]:
        """Call the source in another thread; the future never raises.

        Args:
            left: seconds until the call is overdue.
        """
        try:
            return self._bulkhead.submit(lambda: self.search(query), left, limit=limit)
        except Busy as busy:
            refused: Future[SourceReply] = Future()
            refused.set_result(self.refused(busy))
            return refused

    @property
    def is_preparable(self) -> bool:
        """Whether its first answer may wait for something to be loaded (`Preparable`)."""
        return self._preparable is not None

    def prepare(self, query_text: str, seconds: float) -> None:
        """Have a source that `is_preparable` load what its first answer waits for; a failure is passed over."""
        assert self._preparable is not None
        try:
            self._preparable.prepare(query_text, seconds)
        except Exception as error:  # the search itself says what is wrong
            logger.debug("source %s could not be prepared", self.source_id, exc_info=error)

    @property
    def store(self) -> object | None:
        """What holds the source, where it can be searched together with others; else None."""
        return None if self._joint is None else self._joint.store

    def enter(self, left: Callable[[], float], limit: int) -> Callable[[], None]:
        """Count a call of several sources as one of this; see `Bulkhead.enter`."""
        return self._bulkhead.enter(left, limit=limit)

    def search_together(self, others: Sequence[SourceBulkhead], query: SourceQuery) -> list[SourceReply]:
        """Search this source and others of its store, in this thread; where that fails, each by itself."""
        assert self._joint is not None
        started = self._clock.monotonic()
        try:
            answers_of = self._joint.search_together([call.source for call in others], query)
            answers = list(zip(others, answers_of, strict=True))
        except BaseException as error:
            logger.debug("sources of one store could not be searched together", exc_info=error)
            return [call.search(query) for call in others]
        return [call.reply(answer, query, started) for call, answer in answers]

    def refused(self, busy: Busy) -> SourceReply:
        """Return the reply of a source that was not called."""
        return SourceReply(None, SourceBusy(str(busy), source_id=self.source_id, retryable=True), 0.0)

    def fetch(self, request: FetchRequest, limit: int) -> tuple[Chunk, ...]:
        """Return chunks by their ids, within `request.timeout_s`.

        Args:
            limit: most parallel calls of the source, searches included.

        Raises:
            SourceError: it cannot give them, or not now.
        """
        left = countdown(request.timeout_s, self._clock.monotonic)
        try:
            call = self._bulkhead.submit(lambda: self._fetched(request), left, limit=limit)
        except Busy as busy:
            raise SourceBusy(str(busy), source_id=self.source_id, retryable=True) from None
        if not wait_all([call], [left()])[0]:
            problem = f"no answer within {request.timeout_s:.3g} s"
            raise SourceTimeout(problem, source_id=self.source_id, retryable=True)
        return call.result()

    def _fetched(self, request: FetchRequest) -> tuple[Chunk, ...]:
        try:
            return fetched_chunks(self.source, request, self._declared)
        except BaseException as error:
            raise as_source_error(error, self.source_id) from error

    def search(self, query: SourceQuery) -> SourceReply:
        """Search the source in this thread; whatever it raises is the reply's error."""
        started = self._clock.monotonic()
        try:
            outcome: Any = self.source.search(query)
        except BaseException as error:  # noqa: BLE001  whatever an adapter raises is its own outcome
            outcome = as_source_error(error, self.source_id)
        return self.reply(outcome, query, started)

    def reply(self, found: SourceAnswer | SourceError, query: SourceQuery, started: float) -> SourceReply:
        """Return the reply for what the source answered or raised.

        Args:
            started: when it was called.
        """
        if isinstance(found, SourceError):
            return SourceReply(None, as_source_error(found, self.source_id), self._ms(started))
        try:
            answer, withheld = readable(
                found,
                source_id=self.source_id,
                declared=self._declared,
                scope=query.access,
                keeps_classes=self._keeps_classes,
            )
            validated = validate_answer(
                answer, source_id=self.source_id, top_k=query.top_k, valid_chunks=self._valid_chunks
            )
            validated = validated._replace(withheld=withheld)
            return SourceReply(validated, None, self._ms(started), validated.retrieved_at or self._clock.now())
        except BaseException as error:  # noqa: BLE001  whatever an adapter raises is its own failure
            return SourceReply(None, as_source_error(error, self.source_id), self._ms(started))

    def _ms(self, started: float) -> float:
        return (self._clock.monotonic() - started) * 1000.0


def as_source_error(error: BaseException, source_id: str) -> SourceError:
    """Return an error of a source for whatever an adapter raised, its message such that every output can hold it."""
    return sanitized_error(source_error_from(error, source_id))


def call_sources(calls: Sequence[SourceCall], *, limit: int, clock: Clock) -> list[SourceReply]:
    """Make all calls at once and return one reply each, in the order given, when the last is in or its time is up.

    Args:
        calls: each query has a time limit of its own, which begins now.
        limit: most parallel calls of one source, those of other searches included.
    """
    left = [countdown(call.query.timeout_s, clock.monotonic) for call in calls]
    replies = [Future[SourceReply]() for _ in calls]
    for places in _joint(calls):
        some = [calls[place] for place in places]
        begun = _submitted(some, [left[place] for place in places], limit)
        for place, reply in zip(places, begun, strict=True):
            replies[place] = reply
    in_time = wait_all(replies, [of_call() for of_call in left])
    return [
        reply.result() if done else _timed_out(call) for call, reply, done in zip(calls, replies, in_time, strict=True)
    ]


def _joint(calls: Sequence[SourceCall]) -> list[list[int]]:
    """Return the places of the calls that are made together: of sources of one store, with one query."""
    groups: list[list[int]] = []
    of_store: dict[int, list[list[int]]] = {}
    stores = [call.source.store for call in calls]  # held, so that no two have one id
    for place, (store, (_, query)) in enumerate(zip(stores, calls, strict=True)):
        same = of_store.setdefault(id(store), []) if store is not None else []
        group = next((member for member in same if calls[member[0]].query == query), None)
        if group is None:
            groups.append([place])
            same.append(groups[-1])
        else:
            group.append(place)
    return groups


def _submitted(
    calls: Sequence[SourceCall], left: Sequence[Callable[[], float]], limit: int
) -> list[Future[SourceReply]]:
    """Begin some calls of one query that are made together; the futures never raise."""
    if len(calls) == 1:
        return [calls[0].source.submit(calls[0].query, left[0], limit)]
    futures = [Future[SourceReply]() for _ in calls]
    entered: list[_Entered] = []
    for (source, _), of_call, future in zip(calls, left, futures, strict=True):
        try:
            entered.append(_Entered(source, future, source.enter(of_call, limit)))
        except Busy as busy:
            future.set_result(source.refused(busy))
    try:
        EXECUTOR.submit(lambda: _search_together(entered, calls[0].query), "sources")
    except Busy as busy:
        for source, future, leave in entered:
            leave()
            future.set_result(source.refused(busy))
    return futures


def _search_together(entered: Sequence[_Entered], query: SourceQuery) -> None:
    """Make the calls whose replies are still waited for, and hand each its reply."""
    wanted = [call for call in entered if call.future.set_running_or_notify_cancel()]
    replies = wanted[0].source.search_together([call.source for call in wanted], query) if wanted else []
    for call in entered:
        call.leave()
    for call, reply in zip(wanted, replies, strict=True):
        call.future.set_result(reply)


def _timed_out(call: SourceCall) -> SourceReply:
    limit = call.query.timeout_s
    error = SourceTimeout(f"no answer within {limit:.3g} s", source_id=call.source.source_id, retryable=True)
    return SourceReply(None, error, limit * 1000.0)
