"""An open ledger: when it is retried and maintained, and which records were lost meanwhile."""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from context_engine.audit.recorder.jobs import LedgerInUse
from context_engine.core.protocols import Clock
from context_engine.errors import ContextEngineError

_QUIET_S: Final = 60.0  # between two warnings of a burst of losses


def searches_are(count: int) -> str:
    """Return "1 search is", "2 searches are"."""
    return "1 search is" if count == 1 else f"{count} searches are"


@dataclass(frozen=True, slots=True)
class Loss:
    """Lost records.

    Attributes:
        count: their number.
        since, until: times of the first and the last loss.
    """

    count: int
    since: datetime
    until: datetime


class Losses:
    """Counts the losses not yet recorded in the ledger. Thread-safe under its owner's lock.

    Attributes:
        total: all losses of this process.
    """

    def __init__(self, clock: Clock, place: str) -> None:
        self.total = 0
        self._clock, self._place = clock, place
        self._open: Loss | None = None
        self._said_at: float | None = None

    @property
    def unreported(self) -> Loss | None:
        """The losses not yet recorded in the ledger."""
        return self._open

    def add(self, count: int, reason: str) -> None:
        """Count lost records, and log it unless that was just done."""
        now = self._clock.now()
        before = self._open
        self._open = Loss(count, now, now) if before is None else Loss(before.count + count, before.since, now)
        self.total += count
        moment = self._clock.monotonic()
        if self._said_at is None or moment - self._said_at >= _QUIET_S:
            self._said_at = moment
            logger.warning("%s not recorded in %s: %s", searches_are(self._open.count), self._place, reason)

    def reported(self, loss: Loss) -> None:
        """Note that the ledger has recorded a loss; later losses remain to be recorded."""
        now = self._open
        self._said_at = None
        logger.warning("the ledger %s answers again; %s not recorded", self._place, searches_are(loss.count))
        if now is not None:
            left = now.count - loss.count
            self._open = Loss(left, loss.until, now.until) if left > 0 else None


logger = logging.getLogger(__name__)
_FIRST_PAUSE_S: Final = 0.25  # doubled after each failure
_LONGEST_PAUSE_S: Final = 30.0
_IDLE_S: Final = 0.2  # without a record, after which pending records are integrated
_MOST_PENDING: Final = 1000  # integrated even under load
_SAID_AGAIN_S: Final = 60.0


def reason_of(error: BaseException) -> str:
    """Return the reason of a failure for people; the text of a foreign exception may quote confidential data."""
    return str(error) if isinstance(error, ContextEngineError) else f"internal error {type(error).__name__}"


class LedgerSession:
    """The writer thread's view of its ledger; not thread-safe.

    Attributes:
        retry_at: when a failed ledger is retried; None: it works.
        problem: why it failed; "" if it works.
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
        """Return the ledger, opening it if needed; errors of opening are passed on."""
        if self._ledger is None:
            self._ledger = self._open_ledger()
            self._pending = 1  # a killed process may have left pending records
        return self._ledger

    def wrote(self, count: int) -> None:
        """Note that records were written."""
        self.retry_at, self.problem, self._pause_s = None, "", _FIRST_PAUSE_S
        self._pending += count
        self._wrote_at = self._clock.monotonic()
        if self._ledger is not None and self._ledger.publisher is not None and count:
            self._ledger.publisher.added(count)

    def failed(self, error: BaseException) -> None:
        """Note that the ledger failed."""
        now = self._clock.monotonic()
        self.problem, self.retry_at = reason_of(error), now + self._pause_s
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        if self._said_at is None or now - self._said_at >= _SAID_AGAIN_S:
            self._said_at = now
            logger.warning("nothing can be recorded in %s, which is retried: %s", self._place, self.problem)
            logger.debug("the failure", exc_info=error)

    def may_be_tried(self, now: float, *, last: bool) -> bool:
        """Return whether records that nobody waits for are tried now; on closing, a failed ledger gets a last try."""
        if self.retry_at is None or now >= self.retry_at:
            return True
        tried, self._tried_last = self._tried_last, last
        return last and not tried

    def tidies_at(self) -> float | None:
        """Return when pending records are to be integrated; None: not before the next record."""
        if self._ledger is None or self.retry_at is not None:
            return None
        if self._tidy_again_at is not None:
            return self._tidy_again_at
        if not self._pending:
            return None
        return self._wrote_at + (_IDLE_S if self._pending < _MOST_PENDING else 0.0)

    def tidy(self) -> None:
        """Integrate pending records."""
        if self._ledger is None or not self._pending:
            return
        try:
            self._ledger.log.integrate()
            self._pending, self._tidy_again_at = 0, None
        except Exception as error:
            self._tidy_again_at = self._clock.monotonic() + _LONGEST_PAUSE_S
            logger.warning(
                "pending records of the ledger %s could not be integrated: %s", self._place, reason_of(error)
            )
            logger.debug("the failure", exc_info=error)

    def close(self) -> None:
        """Integrate, make a last checkpoint and close the ledger."""
        self.tidy()
        ledger, self._ledger = self._ledger, None
        if ledger is not None:
            try:
                if ledger.publisher is not None:
                    ledger.publisher.close()
                ledger.log.close()
            except Exception as error:  # noqa: BLE001  nothing of it matters any more
                logger.warning("the ledger %s could not be closed: %s", self._place, reason_of(error))
