"""Stage 1: every source called at once, each with a time limit; what one does never holds up the others.

Each source is behind a bulkhead that bounds its parallel calls; while a call of a source is overdue the source is
busy at once, so one that never returns costs one search its time limit, and neither the next searches nor process exit
wait for it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, NamedTuple

from context_engine.core.concurrency.bulkhead import Bulkhead
from context_engine.core.concurrency.deadline import countdown
from context_engine.core.concurrency.executor import Busy
from context_engine.core.concurrency.fan_out import wait_all
from context_engine.core.engine.admission import ValidatedAnswer, validate_answer
from context_engine.core.engine.fetching import fetched_chunks
from context_engine.core.engine.sanitize_chunk import sanitized_error
from context_engine.core.engine.withholding import readable
from context_engine.core.models import Chunk, Classification, FetchRequest, SourceQuery
from context_engine.core.protocols import Clock, Source
from context_engine.errors import SourceBusy, SourceError, SourceTimeout, source_error_from

__all__ = ["SourceBulkhead", "SourceCall", "SourceReply", "as_source_error", "call_sources"]


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
        self._bulkhead = Bulkhead(f"source-{source_id}")

    def submit(self, query: SourceQuery, left: Callable[[], float], limit: int) -> Future[SourceReply]:
        """Call the source in another thread; the future never raises.

        Args:
            query: what to search for.
            left: seconds until the call is overdue.
            limit: most parallel calls.
        """
        try:
            return self._bulkhead.submit(lambda: self._search(query), left, limit=limit)
        except Busy as busy:
            error = SourceBusy(str(busy), source_id=self.source_id, retryable=True)
        refused: Future[SourceReply] = Future()
        refused.set_result(SourceReply(None, error, 0.0))
        return refused

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

    def _search(self, query: SourceQuery) -> SourceReply:
        started = self._clock.monotonic()
        try:
            found = self.source.search(query)
            answer, withheld = readable(
                found,
                source_id=self.source_id,
                declared=self._declared,
                scope=query.access,
                keeps_classes=self._keeps_classes,
            )
            validated = validate_answer(answer, source_id=self.source_id, top_k=query.top_k)
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
        clock: the time.
    """
    left = [countdown(call.query.timeout_s, clock.monotonic) for call in calls]
    replies = [call.source.submit(call.query, of_call, limit) for call, of_call in zip(calls, left, strict=True)]
    in_time = wait_all(replies, [of_call() for of_call in left])
    return [
        reply.result() if done else _timed_out(call) for call, reply, done in zip(calls, replies, in_time, strict=True)
    ]


def _timed_out(call: SourceCall) -> SourceReply:
    limit = call.query.timeout_s
    error = SourceTimeout(f"no answer within {limit:.3g} s", source_id=call.source.source_id, retryable=True)
    return SourceReply(None, error, limit * 1000.0)
