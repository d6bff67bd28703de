"""How many requests are worked on at once, and how many wait for their turn."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

from context_engine.errors import Overloaded


class Slots:
    """A bound on what is at work, with a queue that has a bound of its own; first come, first served.

    Used from the event loop alone.

    Args:
        bounds: returns how many may be at work and how many may wait, as the settings have it now.
    """

    def __init__(self, bounds: Callable[[], tuple[int, int]]) -> None:
        self._bounds = bounds
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._at_work = 0

    @property
    def at_work(self) -> int:
        """How many slots are taken."""
        return self._at_work

    async def take(self) -> bool:
        """Take a slot, waiting for it in the queue; return whether it had to be waited for.

        Raises:
            Overloaded: the queue is full.
        """
        most, most_waiting = self._bounds()
        if self._at_work < most:
            self._at_work += 1
            return False
        if len(self._waiting) >= most_waiting:
            raise Overloaded(f"{self._at_work} requests are at work and {len(self._waiting)} wait: no more are taken")
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            self._forget(turn)
            raise
        return True

    def release(self) -> None:
        """Give a slot back; whoever waits longest has it next."""
        self._at_work -= 1
        most, _ = self._bounds()
        while self._waiting and self._at_work < most:
            turn = self._waiting.popleft()
            if not turn.done():
                self._at_work += 1
                turn.set_result(None)

    def _forget(self, turn: asyncio.Future[None]) -> None:
        """Leave the queue, or give back the slot that came too late."""
        if turn in self._waiting:
            self._waiting.remove(turn)
        elif turn.done() and not turn.cancelled():
            self.release()
