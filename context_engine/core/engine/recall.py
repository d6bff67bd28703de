"""Stage 1: every source asked at once, each with a time limit; what one does never holds up the others.

Each call runs in a daemon thread of its own. A source has a lane that bounds its parallel calls; while a call of a
source is overdue the source answers busy at once, so one that never returns costs one search its time limit, and
neither the next searches nor process exit wait for it.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping, Sequence
from queue import Empty, SimpleQueue
from typing import Any, NamedTuple

from context_engine.core.concurrency.forking import forget_in_child
from context_engine.core.engine.admission import ValidatedAnswer, validate_answer
from context_engine.core.engine.sanitize_chunk import sanitized_error
from context_engine.core.models import SourceQuery
from context_engine.core.protocols import Clock, Source
from context_engine.errors import SourceBusy, SourceError, SourceTimeout, SourceUnavailable

__all__ = ["Call", "Lane", "Reply", "as_source_error", "ask_all"]

logger = logging.getLogger(__name__)


class Reply(NamedTuple):
    """What came of one call for `requested_top_k` candidates: a validated answer or an error, never both."""

    answer: ValidatedAnswer | None
    error: SourceError | None
    elapsed_ms: float
    retrieved_at: Any = None
    requested_top_k: int = 0


Replies = SimpleQueue[tuple[object, Reply]]
"""Where calls leave their replies, each under its token."""


class Call(NamedTuple):
    """One source to ask."""

    lane: Lane
    query: SourceQuery


class _Waiting(NamedTuple):
    place: int
    source_id: str
    due: float
    limit: float


class Lane:
    """The calls of one source that are under way."""

    def __init__(self, source_id: str, source: Source, clock: Clock) -> None:
        self.source_id, self.source = source_id, source
        self._clock = clock
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Know of no call under way: in a forked child none is."""
        self._lock = threading.Lock()
        self._due: dict[object, float] = {}

    def start(self, query: SourceQuery, due: float, bound: int, replies: Replies) -> object:
        """Ask in a thread of its own; the reply goes to the queue under the token returned. Overdue from `due` on.

        Raises:
            SourceBusy: at the bound, stuck in an overdue call, or no thread is to be had.
        """
        token = object()
        now = self._clock.monotonic()
        with self._lock:
            if any(one <= now for one in self._due.values()):
                raise SourceBusy("still busy with an overdue call", source_id=self.source_id, retryable=True)
            if len(self._due) >= bound:
                raise SourceBusy(f"{bound} calls are under way", source_id=self.source_id, retryable=True)
            self._due[token] = due
        thread = threading.Thread(
            target=self._run, args=(token, query, replies), name=f"source-{self.source_id}", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:
            with self._lock:
                del self._due[token]
            raise SourceBusy("no thread could be started", source_id=self.source_id, retryable=True) from None
        return token

    def _run(self, token: object, query: SourceQuery, replies: Replies) -> None:
        started = self._clock.monotonic()
        try:
            answer = self.source.search(query)
            valid = validate_answer(answer, source_id=self.source_id, top_k=query.top_k)
            reply = Reply(valid, None, self._ms(started), valid.retrieved_at or self._clock.now())
        except BaseException as error:  # noqa: BLE001  a source's thread must always leave its lane
            reply = Reply(None, as_source_error(error, self.source_id), self._ms(started))
        finally:
            with self._lock:
                self._due.pop(token, None)
        replies.put((token, reply))

    def _ms(self, started: float) -> float:
        return (self._clock.monotonic() - started) * 1000.0


def as_source_error(error: BaseException, source_id: str) -> SourceError:
    """An adapter's own exception may hold secrets: its type is shown, its text goes to the debug log."""
    if isinstance(error, SourceError):
        error.source_id = error.source_id or source_id
        return sanitized_error(error)
    logger.debug("source %s raised", source_id, exc_info=error)
    name = type(error).__name__
    return SourceUnavailable(f"failed with {name} (its text is in the debug log)", source_id=source_id)


def ask_all(calls: Sequence[Call], *, bounds: Mapping[str, int], clock: Clock) -> list[Reply]:
    """Make all calls at once and return one reply each, in the order given, when the last is in or its time is up."""
    replies: Replies = SimpleQueue()
    done: dict[int, Reply] = {}
    waiting: dict[object, _Waiting] = {}
    started = clock.monotonic()
    for index, (lane, query) in enumerate(calls):
        try:
            due = started + query.timeout_s
            token = lane.start(query, due, bounds[lane.source_id], replies)
            waiting[token] = _Waiting(index, lane.source_id, due, query.timeout_s)
        except SourceBusy as error:
            done[index] = Reply(None, error, 0.0)
    while waiting:
        patience = min(one.due for one in waiting.values()) - clock.monotonic()
        try:
            token, reply = replies.get(timeout=max(patience, 0.0))
            if token in waiting:
                done[waiting.pop(token).place] = reply
        except Empty:
            _give_up(waiting, done, clock)
    return [done[index] for index in range(len(calls))]


def _give_up(waiting: dict[object, _Waiting], done: dict[int, Reply], clock: Clock) -> None:
    now = clock.monotonic()
    for token, (place, source_id, due, limit) in list(waiting.items()):
        if due <= now:
            error = SourceTimeout(f"no answer within {limit:.3g} s", source_id=source_id, retryable=True)
            done[place] = Reply(None, error, limit * 1000.0)
            del waiting[token]
