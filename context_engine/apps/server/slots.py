"""The bound on requests in progress, and the queue of those that wait: fair between callers, no longer than useful."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import Callable
from math import ceil
from typing import Final, NamedTuple

from context_engine.errors import Overloaded

_WEIGHT: Final = 0.2  # of the newest duration in the mean
_SHARE: Final = 0.75  # of all slots: the most that one domain may take if there are others


class Bounds(NamedTuple):
    """The limits in force.

    Attributes:
        at_work: most requests in progress.
        waiting: most requests that wait.
        shared: whether no single domain may take all slots.
    """

    at_work: int
    waiting: int
    shared: bool = False


class Turn(NamedTuple):
    """How a request waits for a slot.

    Attributes:
        line: requests of one line are served in order, and lines in turn; None: the line of the caller.
        domain: that of a search; None: of no domain.
        patience_s: longest useful wait; None: any.
        outlasts: whether the work is done even if the request has ended before its turn.
    """

    line: str | None = None
    domain: str | None = None
    patience_s: float | None = None
    outlasts: bool = False


class _Waiting(NamedTuple):
    turn: asyncio.Future[None]
    domain: str | None


class Slots:
    """Bounds requests in progress; used from the event loop only.

    Callers that wait are served in turn, each caller's own requests in order. If the queue is full, the caller with the
    most waiting requests loses its newest one, so that no caller can fill the queue for the others.

    Args:
        bounds: returns the current limits.
    """

    def __init__(self, bounds: Callable[[], Bounds]) -> None:
        self._bounds = bounds
        self._queues: dict[str, deque[_Waiting]] = {}  # the caller whose turn is next comes first
        self._at_work = 0
        self._of_domain: Counter[str] = Counter()
        self._mean_s = 0.0

    @property
    def at_work(self) -> int:
        """The number of slots taken."""
        return self._at_work

    @property
    def waiting(self) -> int:
        """The number of requests that wait for a slot."""
        return sum(map(len, self._queues.values()))

    async def take(self, caller: str = "", *, domain: str | None = None, patience_s: float | None = None) -> bool:
        """Take a slot; return whether it had to wait in the queue.

        Args:
            caller: whose requests wait in one line.
            domain: None for a request of no domain.
            patience_s: longest useful wait; None: any.

        Raises:
            Overloaded: the queue is full, or the expected wait is too long.
        """
        bounds = self._bounds()
        if self._is_free(bounds, domain):
            self._enter(domain)
            return False
        self._check_wait(bounds, caller, patience_s)
        if self.waiting >= bounds.waiting:
            self._make_room(caller)
        waiting = _Waiting(asyncio.get_running_loop().create_future(), domain)
        self._queues.setdefault(caller, deque()).append(waiting)
        try:
            await waiting.turn
        except asyncio.CancelledError:
            self._forget(caller, waiting)
            raise
        return True

    def release(self, domain: str | None = None, held_s: float | None = None) -> None:
        """Give a slot back; those waiting take it in turn.

        Args:
            domain: as in `take`.
            held_s: seconds for which it was held by work; None: not known.
        """
        self._at_work -= 1
        if domain is not None:
            self._of_domain[domain] -= 1
            if not self._of_domain[domain]:
                del self._of_domain[domain]
        if held_s is not None:
            self._mean_s = held_s if not self._mean_s else (1 - _WEIGHT) * self._mean_s + _WEIGHT * held_s
        bounds = self._bounds()
        while self._at_work < bounds.at_work and (waiting := self._next(bounds)) is not None:
            if not waiting.turn.done():
                self._enter(waiting.domain)
                waiting.turn.set_result(None)

    def _is_free(self, bounds: Bounds, domain: str | None) -> bool:
        return self._at_work < bounds.at_work and not self._at_share(bounds, domain)

    def _at_share(self, bounds: Bounds, domain: str | None) -> bool:
        """Whether a domain has all the slots that one domain may take."""
        return bounds.shared and domain is not None and self._of_domain[domain] >= max(1, int(_SHARE * bounds.at_work))

    def _enter(self, domain: str | None) -> None:
        self._at_work += 1
        if domain is not None:
            self._of_domain[domain] += 1

    def _next(self, bounds: Bounds) -> _Waiting | None:
        """Take the next request out of the queue; its caller goes to the end of the line."""
        for caller, queue in self._queues.items():
            waiting = next((request for request in queue if not self._at_share(bounds, request.domain)), None)
            if waiting is not None:
                queue.remove(waiting)
                del self._queues[caller]
                if queue:
                    self._queues[caller] = queue
                return waiting
        return None

    def _check_wait(self, bounds: Bounds, caller: str, patience_s: float | None) -> None:
        """Refuse a request that would wait longer than is useful.

        Before it come all its caller's waiting requests, and as many of each other caller at most.
        """
        own = len(self._queues.get(caller, ()))
        before = own + sum(min(len(queue), own + 1) for other, queue in self._queues.items() if other != caller)
        expected_s = ceil((before + 1) / bounds.at_work) * self._mean_s
        if patience_s is not None and expected_s > patience_s:
            problem = f"the wait would be about {expected_s:.1f} s, longer than the {patience_s:.3g} s that are useful"
            raise Overloaded(f"{problem}: ask again later", retry_after_s=max(1.0, expected_s - patience_s))

    def _make_room(self, caller: str) -> None:
        """Refuse the newest request of the caller with the most waiting ones, which may be this one."""
        longest = max(self._queues, key=lambda name: len(self._queues[name]), default=caller)
        full = Overloaded(
            f"{self._at_work} requests are in progress and {self.waiting} wait: ask again later",
            retry_after_s=max(1.0, self._mean_s),
        )
        queue = self._queues.get(longest)
        if queue is None or len(queue) <= len(self._queues.get(caller, ())) + 1:
            raise full
        newest = queue.pop()
        if not newest.turn.done():
            newest.turn.set_exception(full)

    def _forget(self, caller: str, waiting: _Waiting) -> None:
        """Leave the queue, or return a slot that came too late."""
        queue = self._queues.get(caller)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._queues[caller]
        elif waiting.turn.done() and not waiting.turn.cancelled() and waiting.turn.exception() is None:
            self.release(waiting.domain)
