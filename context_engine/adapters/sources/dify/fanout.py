"""Several calls at once, in daemon threads, up to a deadline; one that never returns holds up nobody."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

from context_engine.adapters.sources.dify.fair_queue import Flow, Slot
from context_engine.core.concurrency.executor import WORKERS
from context_engine.core.engine.recall import as_source_error
from context_engine.errors import SourceBusy, SourceError, SourceTimeout

__all__ = ["Ticket", "ask_each"]

T = TypeVar("T")


@dataclass(slots=True)
class Ticket:
    """What one call holds while it runs.

    Attributes:
        left: seconds until nobody waits for it any more.
        flow: the search it belongs to; one that waits for nobody else if None.
        slot: the connection it uses, None while it uses none.
    """

    left: Callable[[], float]
    flow: Flow = None  # type: ignore[assignment]
    slot: Slot | None = None
    abandoned: bool = False
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        if self.flow is None:
            self.flow = Flow(self.left, patient=True)

    def hold(self, slot: Slot) -> None:
        """Take a slot; given back at once if nobody waits any more."""
        with self.lock:
            self.slot = slot
            if self.abandoned:
                slot.release()

    def abandon(self) -> None:
        """Give back what it holds: it hangs, and others need the connection's place."""
        with self.lock:
            self.abandoned = True
            if self.slot is not None:
                self.slot.release()


class _Search(Generic[T]):
    """The calls of one search."""

    def __init__(
        self, jobs: Sequence[Callable[[Ticket], T]], left: Callable[[], float], asked: Sequence[Hashable] | None
    ) -> None:
        self.jobs, self.left = jobs, left
        self.todo = deque(range(len(jobs)))
        if asked is None:
            self.flow = Flow(left, patient=True)
        else:
            self.flow = Flow(left, lambda: [asked[index] for index in self.todo.copy()])
        self.tickets: dict[int, Ticket] = {}
        self.done: SimpleQueue[tuple[int, T | SourceError]] = SimpleQueue()

    def work(self) -> None:
        """Do jobs until there are none, or no time."""
        while self.left() > 0:
            try:
                index = self.todo.popleft()
            except IndexError:
                return
            ticket = self.tickets[index] = Ticket(self.left, self.flow)
            result: T | SourceError
            try:
                result = self.jobs[index](ticket)
            except BaseException as error:  # noqa: BLE001  a thread always reports
                result = as_source_error(error, "")
            self.done.put((index, result))


def ask_each(
    jobs: Sequence[Callable[[Ticket], T]],
    *,
    width: int,
    left: Callable[[], float],
    asked: Sequence[Hashable] | None = None,
) -> list[T | SourceError]:
    """Run jobs, at most `width` at once and the first ones first; return a result or an error for each, in order.

    Args:
        jobs: each is given a ticket.
        width: most threads.
        left: seconds until the answer is wanted; what is not done by then counts as timed out.
        asked: for each job the dataset that it asks; the jobs are then refused as busy at once where the server cannot
            serve all of them in time. None: each waits as long as it may.
    """
    search = _Search(jobs, left, asked)
    started = sum(WORKERS.start(search.work) for _ in range(min(width, len(jobs))))
    results: dict[int, T | SourceError] = {}
    while started and len(results) < len(jobs):
        try:
            index, result = search.done.get(timeout=max(left(), 0.0))
        except Empty:
            break
        results[index] = result
    for index, ticket in list(search.tickets.items()):
        if index not in results:
            ticket.abandon()
    return [
        results[index] if index in results else _missing(index in search.tickets, started) for index in range(len(jobs))
    ]


def _missing(asked: bool, started: int) -> SourceError:
    if not started:
        return SourceBusy("no thread could be started", retryable=True)
    problem = "no answer in time" if asked else "not asked in time: other datasets took all of it"
    return SourceTimeout(problem, retryable=True)
