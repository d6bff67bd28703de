"""What was not recorded under `best_effort`: counted, logged once a burst, and told to the ledger when it answers."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from context_engine.core.protocols import Clock

logger = logging.getLogger(__name__)

_QUIET_S: Final = 60.0
"""Between two log records of a burst."""


def searches_are(count: int) -> str:
    """Return "1 search is", "2 searches are"."""
    return "1 search is" if count == 1 else f"{count} searches are"


@dataclass(frozen=True, slots=True)
class Loss:
    """Records that there are not.

    Attributes:
        count: how many.
        since, until: when the first and the last were lost.
    """

    count: int
    since: datetime
    until: datetime


class Losses:
    """Counts what was lost since the ledger was last told. Its owner's lock makes it safe for many threads.

    Attributes:
        total: all that were lost in this process.
    """

    def __init__(self, clock: Clock, place: str) -> None:
        self.total = 0
        self._clock, self._place = clock, place
        self._open: Loss | None = None
        self._said_at: float | None = None

    @property
    def untold(self) -> Loss | None:
        """What the ledger has not been told yet."""
        return self._open

    def add(self, count: int, reason: str) -> None:
        """Count records as lost, and log it unless that was just done."""
        now = self._clock.now()
        before = self._open
        self._open = Loss(count, now, now) if before is None else Loss(before.count + count, before.since, now)
        self.total += count
        moment = self._clock.monotonic()
        if self._said_at is None or moment - self._said_at >= _QUIET_S:
            self._said_at = moment
            logger.warning("%s not recorded in %s: %s", searches_are(self._open.count), self._place, reason)

    def told(self, loss: Loss) -> None:
        """Note that the ledger holds a loss; what was lost meanwhile is still to be told."""
        now = self._open
        self._said_at = None
        logger.warning("the ledger %s answers again; %s not recorded", self._place, searches_are(loss.count))
        if now is not None:
            left = now.count - loss.count
            self._open = Loss(left, loss.until, now.until) if left > 0 else None
