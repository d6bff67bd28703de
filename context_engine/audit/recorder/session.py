"""An open ledger: when it is retried and tidied, and which records were lost meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from context_engine.audit.recorder.jobs import LedgerInUse
from context_engine.core.protocols import Clock
from context_engine.errors import ContextEngineError

_QUIET_S: Final = 60.0  # Between two log records of a burst.


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


logger = logging.getLogger(__name__)

_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 30.0
_IDLE_S: Final = 0.2  # Without a record, after which what is pending gets its place in the log.
_MOST_PENDING: Final = 1000  # Records after which it does under load, too.
_SAID_AGAIN_S: Final = 60.0


def reason_of(error: BaseException) -> str:
    """Return why something failed, for a person: an error of a library may quote what nobody may read."""
    return str(error) if isinstance(error, ContextEngineError) else f"it failed inside with {type(error).__name__}"


class LedgerSession:
    """What the thread of a writer knows of its ledger. For that thread alone.

    Attributes:
        retry_at: when a ledger that is down is tried again; None: it is not down.
        problem: why it is; "" where it is not.
    """

    def __init__(self, open_ledger: Callable[[], LedgerInUse], clock: Clock, place: str) -> None:
        self.retry_at: float | None = None
        self.problem = ""
        self._open_ledger, self._clock, self._place = open_ledger, clock, place
        self._ledger: LedgerInUse | None = None
        self._pause_s = _FIRST_PAUSE_S
        self._pending = 0
        self._wrote_at = clock.monotonic()
        self._tidy_again_at: float | None = None
        self._said_at: float | None = None
        self._tried_last = False

    def opened(self) -> LedgerInUse:
        """Return the ledger; whatever its opening raises is raised."""
        if self._ledger is None:
            self._ledger = self._open_ledger()
            self._pending = 1  # something may have been left by a process that was killed
        return self._ledger

    def wrote(self, count: int) -> None:
        """Note that the ledger has taken records."""
        self.retry_at, self.problem, self._pause_s = None, "", _FIRST_PAUSE_S
        self._pending += count
        self._wrote_at = self._clock.monotonic()
        if self._ledger is not None and self._ledger.publisher is not None and count:
            self._ledger.publisher.added(count)

    def failed(self, error: BaseException) -> None:
        """Note that the ledger is down."""
        now = self._clock.monotonic()
        self.problem, self.retry_at = reason_of(error), now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        if self._said_at is None or now - self._said_at >= _SAID_AGAIN_S:
            self._said_at = now
            logger.warning("nothing can be recorded in %s, which is tried again: %s", self._place, self.problem)
            logger.debug("the failure", exc_info=error)

    def may_be_tried(self, now: float, *, last: bool) -> bool:
        """Return whether records that nobody waits for are tried now; a ledger that is down gets one last try."""
        if self.retry_at is None or now >= self.retry_at:
            return True
        tried, self._tried_last = self._tried_last, last
        return last and not tried

    def tidies_at(self) -> float | None:
        """Return when there is something to do beside writing; None: not before the next record."""
        if self._ledger is None or self.retry_at is not None:
            return None
        if self._tidy_again_at is not None:
            return self._tidy_again_at
        if not self._pending:
            return None
        return self._wrote_at + (_IDLE_S if self._pending < _MOST_PENDING else 0.0)

    def tidy(self) -> None:
        """Give what is pending its place in the log."""
        if self._ledger is None or not self._pending:
            return
        try:
            self._ledger.log.integrate()
            self._pending, self._tidy_again_at = 0, None
        except Exception as error:
            self._tidy_again_at = self._clock.monotonic() + _LONGEST_PAUSE_S
            logger.warning("the ledger %s could not be tidied up: %s", self._place, reason_of(error))
            logger.debug("the failure", exc_info=error)

    def close(self) -> None:
        """Tidy up, make a last checkpoint and close the ledger."""
        self.tidy()
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            try:
                if ledger.publisher is not None:
                    ledger.publisher.close()
                ledger.log.close()
            except Exception as error:  # noqa: BLE001  nothing of it matters any more
                logger.warning("the ledger %s could not be closed: %s", self._place, reason_of(error))
