"""Stage 1: all sources are called at once, each with a time limit; a slow or failing source does not affect the others.

Sources of one store are searched in one call if the adapter can; each still gets its own reply. Every source is behind
a bulkhead that bounds its parallel calls. While a call is overdue, its source refuses new calls at once: a call that
never returns costs one search its time limit, and neither later searches nor process exit wait for it. A source whose
last calls were too slow is left alone for a while, and then tried in the background: no search waits for it meanwhile.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from typing import Any, Final, NamedTuple

from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.concurrency.calls import (
    EXECUTOR,
    Breaker,
    Bulkhead,
    Busy,
    DeadlineExceeded,
    countdown,
    done_within,
    wait_all,
)
from context_engine.core.engine.admission import ValidatedAnswer, validate_answer
from context_engine.core.engine.permission import fetched_chunks, linked_chunks, readable
from context_engine.core.engine.sanitize_chunk import sanitized_error
from context_engine.core.models import (
    Chunk,
    Classification,
    FetchRequest,
    Link,
    LinkQuery,
    SourceAnswer,
    SourceQuery,
)
from context_engine.core.protocols import Clock, GraphStore, JointlySearchable, Preparable, Source, Versioned
from context_engine.core.tracing import Step, span
from context_engine.errors import SourceBusy, SourceError, SourceTimeout, SourceUnavailable, source_error_from

logger = logging.getLogger(__name__)
_MOST_SLOW: Final = 3  # failures in a row
_PAUSE_S: Final = 30.0
_SLOW: Final = 0.5  # of the longest time limit so far, so that a caller in a hurry makes no source slow for others
_LEAST_SLOW_S: Final = 1.0


class SourceReply(NamedTuple):
    """The outcome of one call for `requested_top_k` candidates: a validated answer or an error, never both."""

    answer: ValidatedAnswer | None
    error: SourceError | None
    elapsed_ms: float
    retrieved_at: Any = None
    requested_top_k: int = 0

    @property
    def failures(self) -> Sequence[SourceError]:
        """Its error, or the errors of single parts of the source."""
        if self.error is not None:
            return (self.error,)
        return () if self.answer is None else self.answer.failures


class RepliesTogether(NamedTuple):
    """The outcomes of one call of several sources."""

    replies: Sequence[SourceReply]


class SourceCall(NamedTuple):
    """One query for one source."""

    source: SourceBulkhead
    query: SourceQuery


class _Entered(NamedTuple):
    """A source in a call of several, its reply, and the function that ends its part in the bulkhead."""

    source: SourceBulkhead
    future: Future[SourceReply]
    leave: Callable[[], None]


class SourceBulkhead:
    """A source and its running calls.

    Args:
        declared: the classification of the source in its manifest.

    Attributes:
        versioned: the source, or its store, if it can tell whether it has changed.
    """

    def __init__(self, source_id: str, source: Source, clock: Clock, declared: Classification) -> None:
        self.source_id, self.source = source_id, source
        self._clock, self._declared = clock, declared
        self._keeps_classes = getattr(source, "access_classes", False) is True
        self._valid_chunks = getattr(source, "valid_chunks", False) is True
        self._joint = source if isinstance(source, JointlySearchable) else None
        self._preparable = source if isinstance(source, Preparable) else None
        self._graph = source if isinstance(source, GraphStore) else None
        self.versioned = next((of for of in (source, self.store) if isinstance(of, Versioned)), None)
        self._bulkhead = Bulkhead(f"source-{source_id}")
        self._breaker = Breaker(_MOST_SLOW, _PAUSE_S)
        self._longest_s = _LEAST_SLOW_S  # the longest time limit of a call so far

    def submit(self, query: SourceQuery, left: Callable[[], float], limit: int) -> Future[SourceReply]:
        """Call the source in another thread; the future never raises.

        Args:
            left: seconds until the call is overdue.
        """
        was_open, wait = self._breaker.is_open, self._breaker.wait_s(self._clock.monotonic())
        if wait > 0:
            return _replied(self._left_alone(wait))
        # After slow failures no more searches may wait for the source than failures are left until it is left alone.
        failures = self._breaker.failures
        most = min(limit, max(1, _MOST_SLOW - failures)) if failures else limit
        try:
            reply = self._bulkhead.submit(lambda: self.search(query), left, limit=most)
        except Busy as busy:
            return _replied(self.refused(busy))
        # A source that was too slow is tried in the background: this search does not wait for it either.
        return _replied(self._left_alone(0.0)) if was_open else reply

    @property
    def is_left_alone(self) -> bool:
        """Whether its last calls were too slow, so that no search waits for it."""
        return self._breaker.is_open

    @property
    def is_preparable(self) -> bool:
        """Whether it is `Preparable`: its first answer may have to wait until something is loaded."""
        return self._preparable is not None

    def prepare(self, query_text: str, seconds: float) -> None:
        """Let a source that `is_preparable` load what its first answer needs; failures are ignored."""
        preparable: Any = self._preparable
        try:
            awaited(preparable.prepare(query_text, seconds), seconds)
        except Exception as error:  # the search itself will report the problem
            logger.debug("source %s could not be prepared", self.source_id, exc_info=error)

    @property
    def store(self) -> object | None:
        """The store of the source if its sources can be searched together, else None."""
        return None if self._joint is None else self._joint.store

    def enter(self, left: Callable[[], float], limit: int) -> Callable[[], None]:
        """Count a call of several sources as a call of this source; see `Bulkhead.enter`."""
        return self._bulkhead.enter(left, limit=limit)

    def search_together(self, others: Sequence[SourceBulkhead], query: SourceQuery) -> list[SourceReply]:
        """Search sources of this store together, in this thread; each separately if that fails and it is not busy."""
        assert self._joint is not None
        started = self._clock.monotonic()
        with span(Step.SOURCE, ", ".join(call.source_id for call in others)) as opened:
            opened.tell(query)
            try:
                answers = self._joint.search_together([call.source for call in others], query)
                replies = [call.reply(answer, query, started) for call, answer in zip(others, answers, strict=True)]
            except SourceBusy as busy:
                return [call.refused(busy, self._clock.monotonic() - started) for call in others]
            except BaseException as error:
                logger.debug("sources of one store could not be searched together", exc_info=error)
                return [call.search(query) for call in others]
            opened.tell(RepliesTogether(replies))
        return replies

    def refused(self, busy: Busy | SourceBusy, waited_s: float = 0.0) -> SourceReply:
        """Return the reply of a source that was too busy."""
        return SourceReply(None, SourceBusy(str(busy), source_id=self.source_id, retryable=True), 1000.0 * waited_s)

    def fetch(self, request: FetchRequest, limit: int) -> tuple[Chunk, ...]:
        """Return chunks by their ids, within `request.timeout_s`.

        Args:
            limit: most parallel calls of the source, searches included.

        Raises:
            SourceError: it failed, cannot fetch by id, is busy or too slow.
        """
        left = countdown(request.timeout_s, self._clock.monotonic)
        try:
            call = self._bulkhead.submit(lambda: self._fetched(request), left, limit=limit)
        except Busy as busy:
            raise SourceBusy(str(busy), source_id=self.source_id, retryable=True) from None
        if not wait_all([call], [left()])[0]:
            raise _too_late(self.source_id, request.timeout_s)
        return call.result()

    def _fetched(self, request: FetchRequest) -> tuple[Chunk, ...]:
        try:
            return fetched_chunks(self.source, request, self._declared)
        except DeadlineExceeded:
            raise _too_late(self.source_id, request.timeout_s) from None
        except BaseException as error:
            raise as_source_error(error, self.source_id) from error

    @property
    def is_graph_store(self) -> bool:
        """Whether it is a `GraphStore`."""
        return self._graph is not None

    def follow(self, query: LinkQuery, limit: int) -> Future[tuple[Link, ...]]:
        """Begin to follow links into a source that `is_graph_store`; the future may raise anything.

        Args:
            limit: most parallel calls of the source, searches included.

        Raises:
            Busy: it has as many calls under way.
        """
        graph, left = self._graph, countdown(query.query.timeout_s, self._clock.monotonic)
        assert graph is not None
        return self._bulkhead.submit(
            lambda: linked_chunks(graph, query, self.source_id, self._declared), left, limit=limit
        )

    def search(self, query: SourceQuery) -> SourceReply:
        """Search the source in this thread; any exception becomes the reply's error."""
        started = self._clock.monotonic()
        with span(Step.SOURCE, self.source_id) as opened:
            opened.tell(query)
            try:
                outcome: Any = awaited(self.source.search(query))
            except DeadlineExceeded:
                outcome = _too_late(self.source_id, query.timeout_s)
            except BaseException as error:  # noqa: BLE001  any exception of an adapter becomes the reply of its source
                outcome = as_source_error(error, self.source_id)
            reply = self.reply(outcome, query, started)
            opened.tell(reply)
        self._note(reply, query.timeout_s, started)
        return reply

    def _note(self, reply: SourceReply, limit_s: float, started: float) -> None:
        """Record whether a call was answered, or failed after holding up its search.

        A quick failure says nothing about the source, nor does the end of a wait behind other searches.
        """
        if isinstance(reply.error, SourceBusy):
            return
        self._longest_s = max(self._longest_s, limit_s)
        late, limit_s = reply.elapsed_ms >= 1000.0 * self._longest_s, max(_LEAST_SLOW_S, _SLOW * self._longest_s)
        slow = late or (reply.error is not None and reply.elapsed_ms >= 1000.0 * limit_s)
        if reply.error is not None and not slow:
            return
        was_open = self._breaker.is_open
        self._breaker.note(self._clock.monotonic(), failed=slow, started=started)
        if self._breaker.is_open != was_open:
            words = f"left alone after {_MOST_SLOW} slow failures" if slow else "answers again"
            logger.warning("source %s: %s", self.source_id, words)

    def _left_alone(self, wait: float) -> SourceReply:
        again = f"is not called for another {wait:.0f} s" if wait > 0 else "is being tried in the background"
        problem = f"was too slow {self._breaker.failures} times in a row and {again}"
        error = SourceUnavailable(
            problem, source_id=self.source_id, retryable=True, retry_after_s=round(wait, 3) if wait > 0 else None
        )
        return SourceReply(None, error, 0.0)

    def reply(self, outcome: SourceAnswer | SourceError, query: SourceQuery, started: float) -> SourceReply:
        """Return the reply for the source's answer or error.

        Args:
            started: monotonic time of the call.
        """
        if isinstance(outcome, SourceError):
            return SourceReply(None, as_source_error(outcome, self.source_id), self._ms(started))
        try:
            answer, withheld = readable(
                outcome,
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
        except BaseException as error:  # noqa: BLE001  an answer may raise while it is read
            return SourceReply(None, as_source_error(error, self.source_id), self._ms(started))

    def _ms(self, started: float) -> float:
        return (self._clock.monotonic() - started) * 1000.0


def _replied(reply: SourceReply) -> Future[SourceReply]:
    future: Future[SourceReply] = Future()
    future.set_result(reply)
    return future


def as_source_error(error: BaseException, source_id: str) -> SourceError:
    """Return a source error for any exception of an adapter, with a message that is valid in every output."""
    return sanitized_error(source_error_from(error, source_id))


def call_sources(
    calls: Sequence[SourceCall], *, limit: int, clock: Clock, soft_s: float | None = None, enough: int = 1
) -> list[SourceReply]:
    """Make all calls at once; return their replies in order when each is in or overdue.

    Args:
        calls: the time limit of each query begins now.
        limit: most parallel calls of one source, including the calls of other searches.
        soft_s: seconds after which the others are not waited for, if those in have `enough` chunks; None: never.
    """
    left = [countdown(call.query.timeout_s, clock.monotonic) for call in calls]
    replies = [Future[SourceReply]() for _ in calls]
    for places in _joint(calls):
        group = [calls[place] for place in places]
        begun = _submitted(group, [left[place] for place in places], limit)
        for place, reply in zip(places, begun, strict=True):
            replies[place] = reply
    limits = [call.query.timeout_s for call in calls]
    if soft_s is not None and soft_s < max(limits, default=0.0):
        _wait_softly(replies, soft_s)
        if sum(map(_chunks_in, replies)) >= enough:
            limits = [min(soft_s, seconds) for seconds in limits]
            left = [countdown(0.0, clock.monotonic) for _ in calls]
    in_time = wait_all(replies, [of_call() for of_call in left])
    return [
        reply.result() if done else _timed_out(call, seconds)
        for call, reply, done, seconds in zip(calls, replies, in_time, limits, strict=True)
    ]


def _wait_softly(replies: Sequence[Future[SourceReply]], seconds: float) -> None:
    """Wait until all replies are in, at most some seconds; no call is cancelled."""
    left = countdown(seconds)
    for reply in replies:
        done_within(reply, left())


def _chunks_in(reply: Future[SourceReply]) -> int:
    answer = reply.result().answer if reply.done() else None
    return len(answer.chunks) if answer is not None else 0


def _joint(calls: Sequence[SourceCall]) -> list[list[int]]:
    """Group the indices of calls that are made together: calls to sources of one store with the same query."""
    groups: list[list[int]] = []
    of_store: dict[int, list[list[int]]] = {}
    stores = [call.source.store for call in calls]  # kept alive, since ids of collected objects are reused
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
    """Start calls that share one query together; the futures never raise."""
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
    """Make the calls whose replies are still awaited, and set their results."""
    wanted = [call for call in entered if call.future.set_running_or_notify_cancel()]
    replies = wanted[0].source.search_together([call.source for call in wanted], query) if wanted else []
    for call in entered:
        call.leave()
    for call, reply in zip(wanted, replies, strict=True):
        call.future.set_result(reply)


def _timed_out(call: SourceCall, seconds: float) -> SourceReply:
    return SourceReply(None, _too_late(call.source.source_id, seconds), seconds * 1000.0)


def _too_late(source_id: str, seconds: float) -> SourceTimeout:
    return SourceTimeout(f"no answer within {seconds:.3g} s", source_id=source_id, retryable=True)
