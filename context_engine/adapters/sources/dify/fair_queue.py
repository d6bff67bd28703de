"""The queue before a Dify server: searches take turns, and searches that would be late are refused at once.

The median of the last successful calls predicts how long a call to each dataset takes, and from that when each search
would finish under earliest deadline first. While all searches would be in time, they take turns, so that a search of
many datasets does not block the others; once one has little slack left, the earliest deadline goes first. A search that
would be late even so is refused on arrival. Until a dataset was measured three times, because the first calls after a
start are slow, no search is refused and the earliest deadline goes first; from then on, queued searches that have not
started are checked again.

A search that could not finish in time even on an idle server is never refused and has no priority: it uses the
connections that other searches leave free, until its deadline."""

from __future__ import annotations

import threading
from collections import OrderedDict, deque
from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from heapq import heapify, heapreplace
from itertools import count
from statistics import median
from typing import Final, NamedTuple, TypeVar

from context_engine.core.concurrency.calls import Busy, submit_all, wait_all
from context_engine.core.concurrency.forking import Lock, forget_in_child
from context_engine.errors import SourceBusy, SourceError, SourceTimeout, source_error_from


def finish_times(searches: Iterable[Sequence[float]], connections: int, busy: Iterable[float] = ()) -> list[float]:
    """Return the second at which each search finishes if served in the given order: list scheduling (Graham 1966).

    Args:
        searches: seconds of each call of each search.
        busy: seconds left of the calls that are running.
    """
    free = sorted(busy)[:connections]
    free += [0.0] * (connections - len(free))
    heapify(free)
    done = []
    for calls in searches:
        last = 0.0
        for seconds in calls:
            end = free[0] + seconds
            heapreplace(free, end)
            last = max(last, end)
        done.append(last)
    return done


_WINDOW: Final = 8
_FEWEST: Final = 3
"""Measurements of a dataset from which its median is trusted."""
_CLEARLY: Final = 1.1
"""An admitted search is refused only if it would take this many times the time it has left."""
_ARRIVALS: Final = count()


class Flow:
    """The calls of one search, or of another task that calls a server.

    Args:
        left: returns the seconds until its answers are useless.
        ahead: returns the datasets of the calls still to be made, besides those waiting or running.
        patient: never refused; waits until its deadline (writes, and descriptions of datasets).
    """

    __slots__ = ("ahead", "arrived", "left", "patient", "refusal", "started")

    def __init__(
        self, left: Callable[[], float], ahead: Callable[[], Iterable[Hashable]] = tuple, *, patient: bool = False
    ) -> None:
        self.left, self.ahead, self.patient = left, ahead, patient
        self.arrived = next(_ARRIVALS)
        self.started = False
        self.refusal: _Refusal | None = None


class _Refusal(NamedTuple):
    """The reason for a refusal: seconds that the search would take in the queue, and seconds it had."""

    needs: float
    left: float


class Slot:
    """One place at a server; `release` takes effect once."""

    __slots__ = ("_free",)

    def __init__(self, free: Callable[[], None]) -> None:
        self._free: Callable[[], None] | None = free

    def release(self) -> None:
        free, self._free = self._free, None
        if free is not None:
            free()


class _Call:
    __slots__ = ("flow", "key", "left", "most", "ready")

    def __init__(self, flow: Flow, key: Hashable, most: int) -> None:
        self.flow, self.key, self.most = flow, key, most
        self.left = 0.0
        """Seconds its flow had left when it began to run."""
        self.ready = threading.Event()


class _Claim(NamedTuple):
    """The remaining calls of a flow, and its deadline."""

    flow: Flow
    left: float
    calls: list[float]
    """Seconds of each."""
    hopeless: bool


class FairQueue:
    """Limits the calls running at one server, and chooses the next one. Thread-safe."""

    def __init__(self) -> None:
        self._durations: dict[Hashable, deque[float]] = {}
        self._medians: dict[Hashable, float] = {}
        self.forget()
        forget_in_child(self)

    def forget(self) -> None:
        """Drop running and waiting calls: a forked process has neither."""
        self._lock = threading.Lock()
        self._running: set[_Call] = set()
        self._waiting: OrderedDict[Flow, deque[_Call]] = OrderedDict()  # the first has its turn next

    def enter(self, most: int, flow: Flow, patience_s: float, key: Hashable = None) -> Slot:
        """Take a place of `most`, waiting for one.

        Args:
            patience_s: longest wait in seconds.
            key: the dataset that is searched; None for another call.

        Raises:
            SourceBusy: no place will be free in time, or none became free.
        """
        call = _Call(flow, key, most)
        with self._lock:
            if flow.refusal is None:
                self._waiting.setdefault(flow, deque()).append(call)
                self._serve()
                if not flow.started:
                    self._shed(1.0, flow)
        if flow.refusal is None:
            call.ready.wait(max(patience_s, 0.0))
        with self._lock:
            if call in self._running:
                return Slot(lambda: self._leave(call))
            self._withdraw(call)
        raise _busy(most, flow.refusal)

    def measured(self, key: Hashable, seconds: float) -> None:
        """Record the duration of a successful call to a dataset."""
        with self._lock:
            durations = self._durations.setdefault(key, deque(maxlen=_WINDOW))
            durations.append(seconds)
            if len(durations) >= _FEWEST:
                self._medians[key] = median(durations)

    def expected(self, key: Hashable) -> float:
        """Return the expected seconds of a call: the median of the last calls to a dataset, else to any, else 0."""
        with self._lock:
            durations = self._durations.get(key) or [s for several in self._durations.values() for s in several]
            return median(durations) if durations else 0.0

    def _forecast(self, key: Hashable) -> float:
        """Return the seconds that decide who is refused: a trusted median, else the mean of all those, else 0."""
        known = self._medians.get(key)
        return sum(self._medians.values()) / max(len(self._medians), 1) if known is None else known

    def _leave(self, call: _Call) -> None:
        with self._lock:
            self._running.discard(call)
            self._serve()
            if any(not flow.started for flow in self._waiting):
                self._shed(_CLEARLY)

    def _withdraw(self, call: _Call) -> None:
        waiting = self._waiting.get(call.flow)
        if waiting is not None and call in waiting:
            waiting.remove(call)
            if not waiting:
                del self._waiting[call.flow]

    def _serve(self) -> None:
        """Admit the calls that may run now."""
        while flow := self._next():
            waiting = self._waiting[flow]
            call = waiting.popleft()
            if waiting:
                self._waiting.move_to_end(flow)
            else:
                del self._waiting[flow]
            flow.started = flow.started or call.key is not None
            call.left = flow.left()
            self._running.add(call)
            call.ready.set()

    def _next(self) -> Flow | None:
        """Return the next flow among those that fit; a flow that needs more room than is free does not block others."""
        may = [flow for flow, waiting in self._waiting.items() if len(self._running) < waiting[0].most]
        if len(may) < 2:
            return may[0] if may else None
        claims = self._claims()
        done = zip(claims, self._done(claims))
        slack = min((claim.left - end for claim, end in done if not claim.hopeless), default=0.0)
        longest = max(seconds for claim in claims for seconds in claim.calls)
        tight = (slack < longest or not self._medians) and not claims[0].hopeless
        return next(claim.flow for claim in claims if claim.flow in may) if tight else may[0]

    def _shed(self, factor: float, only: Flow | None = None) -> None:
        """Refuse searches that have not started, newest first, until the others would be in time.

        Args:
            factor: multiple of its remaining time that a search may take.
            only: the only one that may be refused; None for any.
        """
        while self._waiting:
            claims = self._claims()
            done = self._done(claims)
            late = [
                place for place, claim in enumerate(claims) if not claim.hopeless and done[place] > claim.left * factor
            ]
            for place in late:
                newest = _newest(claims[: place + 1])  # later ones do not make it late
                if newest is not None and only in (None, newest):
                    break
            else:
                return
            newest.refusal = _Refusal(done[place], claims[place].left)
            for call in self._waiting.pop(newest):
                call.ready.set()

    def _claims(self) -> list[_Claim]:
        """Return the remaining claims, earliest deadline first; flows that would be late even alone come last."""
        claims, most = [], self._most()
        for flow, waiting in self._waiting.items():
            calls = [self._forecast(key) for key in (*(call.key for call in waiting), *flow.ahead())]
            left = flow.left()
            alone = max(max(calls), sum(calls) / most)
            claims.append(_Claim(flow, left, calls, flow.patient or alone > left))
        return sorted(claims, key=lambda claim: (claim.hopeless, claim.left, claim.flow.arrived))

    def _done(self, claims: Sequence[_Claim]) -> list[float]:
        """Return the second at which each claim finishes in that order."""
        busy = [max(self._forecast(slot.key) - (slot.left - slot.flow.left()), 0.0) for slot in self._running]
        return finish_times([claim.calls for claim in claims], self._most(), busy)

    def _most(self) -> int:
        return max(waiting[0].most for waiting in self._waiting.values())


def _newest(claims: Sequence[_Claim]) -> Flow | None:
    """Return the most recent search that has not started and may be refused."""
    flows = [claim.flow for claim in claims if not claim.flow.started and not claim.flow.patient]
    return max(flows, key=lambda flow: flow.arrived, default=None)


def _busy(most: int, refusal: _Refusal | None) -> SourceBusy:
    if refusal is None:
        return SourceBusy(f"all {most} connections were in use (max_connections)", retryable=True)
    after = max(refusal.needs - refusal.left, 0.1)
    return SourceBusy(
        f"the {most} connections (max_connections) are taken for longer than this search can wait: it would be done in "
        f"{refusal.needs:.1f} s, and {refusal.left:.1f} s are left; ask again in {after:.1f} s",
        retryable=True,
        retry_after_s=round(after, 3),
    )


_LOCK: Final = Lock()
_QUEUES: Final[dict[str, FairQueue]] = {}


def shared_queue(server: str) -> FairQueue:
    """Return the queue before a server, by its base URL without the version."""
    with _LOCK:
        return _QUEUES.setdefault(server, FairQueue())


T = TypeVar("T")


class Ticket:
    """The queue slot and remaining time of one call; without `flow` it waits until its deadline.

    Args:
        allowed_s: seconds that it had when it was made; 0: `waited_long` is not needed.
    """

    __slots__ = ("_abandoned", "_allowed_s", "_left_s", "_lock", "_slot", "flow", "left")

    def __init__(self, left: Callable[[], float], flow: Flow | None = None, allowed_s: float = 0.0) -> None:
        self.left, self.flow = left, flow or Flow(left, patient=True)
        self._allowed_s, self._left_s = allowed_s, 0.0
        self._lock = threading.Lock()
        self._slot: Slot | None = None
        self._abandoned = False

    @property
    def waited_long(self) -> bool:
        """Whether less than half of its time was left when its turn came, if it came: so a timeout is the queue's."""
        return self._left_s < self._allowed_s / 2

    def hold(self, slot: Slot) -> None:
        """Take a slot; it is released at once if the caller has stopped waiting."""
        with self._lock:
            self._slot, self._left_s = slot, self.left()
            if self._abandoned:
                slot.release()

    def abandon(self) -> None:
        """Release the slot of a hanging call, because others need the place."""
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
    """Run jobs, at most `width` at once in the given order; return a result or an error for each, in order.

    Args:
        left: returns the seconds until the answer is needed; unfinished jobs then count as timed out, or as busy if
            they waited for their turn most of the time.
        datasets: the dataset of each job; the jobs are refused as busy at once if the server cannot serve all of them
            in time. None: each waits as long as it may.
    """
    not_begun, allowed_s = deque(datasets or ()), max(left(), 0.0)
    flow = Flow(left, patient=True) if datasets is None else Flow(left, not_begun.copy)
    tickets = [Ticket(left, flow, allowed_s) for _ in jobs]

    def outcome(job: Callable[[Ticket], T], ticket: Ticket) -> T | SourceError:
        if left() <= 0:
            return _timed_out(allowed_s, begun=False)
        if not_begun:
            not_begun.popleft()
        try:
            return job(ticket)
        except BaseException as error:  # noqa: BLE001  one failing job must not fail the others
            return source_error_from(error)

    calls = [partial(outcome, job, ticket) for job, ticket in zip(jobs, tickets, strict=True)]
    try:
        futures = submit_all(calls, width=width, name="dify")
    except Busy as busy:
        return [SourceBusy(str(busy), retryable=True) for _ in jobs]
    in_time = wait_all(futures, [left()] * len(futures))
    results: list[T | SourceError] = []
    for future, ticket, done in zip(futures, tickets, in_time, strict=True):
        if not done:
            ticket.abandon()
        result: T | SourceError = future.result() if done else _timed_out(allowed_s, begun=not future.cancelled())
        if isinstance(result, SourceTimeout) and ticket.waited_long and not future.cancelled():
            result = SourceBusy(f"its turn came too late, {result.problem} (max_connections)", retryable=True)
        results.append(result)
    return results


def _timed_out(allowed_s: float, *, begun: bool) -> SourceTimeout:
    within = f"within {allowed_s:.3g} s"
    problem = f"no answer {within}" if begun else f"not asked {within}: other datasets used up the time"
    return SourceTimeout(problem, retryable=True)
