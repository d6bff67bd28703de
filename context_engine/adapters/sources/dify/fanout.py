"""The calls of one search to the datasets of a workspace, in daemon threads and up to a deadline."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from functools import partial
from typing import TypeVar

from context_engine.adapters.sources.dify.fair_queue import Flow, Slot
from context_engine.core.concurrency.executor import Busy
from context_engine.core.concurrency.fan_out import submit_all, wait_all
from context_engine.errors import SourceBusy, SourceError, SourceTimeout, source_error_from

T = TypeVar("T")


class Ticket:
    """What one call holds while it runs.

    Args:
        left: seconds until nobody waits for it any more.
        flow: the search it belongs to; None for one that waits as long as it may.
    """

    __slots__ = ("_abandoned", "_lock", "_slot", "flow", "left")

    def __init__(self, left: Callable[[], float], flow: Flow | None = None) -> None:
        self.left, self.flow = left, flow or Flow(left, patient=True)
        self._lock = threading.Lock()
        self._slot: Slot | None = None
        self._abandoned = False

    def hold(self, slot: Slot) -> None:
        """Take a slot; given back at once if nobody waits any more."""
        with self._lock:
            self._slot = slot
            if self._abandoned:
                slot.release()

    def abandon(self) -> None:
        """Give back what it holds: it hangs, and others need the connection's place."""
        with self._lock:
            self._abandoned = True
            if self._slot is not None:
                self._slot.release()


def ask_each(
    jobs: Sequence[Callable[[Ticket], T]],
    *,
    width: int,
    left: Callable[[], float],
    datasets: Sequence[Hashable] | None = None,
) -> list[T | SourceError]:
    """Run jobs, at most `width` at once and the first ones first; return a result or an error for each, in order.

    Args:
        jobs: each is given a ticket.
        width: most threads.
        left: seconds until the answer is wanted; what is not done by then counts as timed out.
        datasets: the one that each job searches; the jobs are then refused as busy at once where the server cannot
            serve all of them in time. None: each waits as long as it may.
    """
    not_begun, given_s = deque(datasets or ()), max(left(), 0.0)
    flow = Flow(left, patient=True) if datasets is None else Flow(left, not_begun.copy)
    tickets = [Ticket(left, flow) for _ in jobs]

    def result(job: Callable[[Ticket], T], ticket: Ticket) -> T | SourceError:
        if left() <= 0:
            return _timed_out(given_s, begun=False)
        if not_begun:
            not_begun.popleft()
        try:
            return job(ticket)
        except BaseException as error:  # noqa: BLE001  whatever a job raises is its own failure
            return source_error_from(error)

    calls = [partial(result, job, ticket) for job, ticket in zip(jobs, tickets, strict=True)]
    try:
        futures = submit_all(calls, width=width, name="dify")
    except Busy as busy:
        return [SourceBusy(str(busy), retryable=True) for _ in jobs]
    in_time = wait_all(futures, [left()] * len(futures))
    results: list[T | SourceError] = []
    for future, ticket, done in zip(futures, tickets, in_time, strict=True):
        if not done:
            ticket.abandon()
        results.append(future.result() if done else _timed_out(given_s, begun=not future.cancelled()))
    return results


def _timed_out(given_s: float, *, begun: bool) -> SourceTimeout:
    within = f"within {given_s:.3g} s"
    problem = f"no answer {within}" if begun else f"not asked {within}: other datasets took all of it"
    return SourceTimeout(problem, retryable=True)
