"""What the review pages keep in memory about a ledger: its overview, the replays made, and the last verification."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from context_engine.audit.review.overview import Overview
from context_engine.core.concurrency.calls import EXECUTOR
from context_engine.core.concurrency.forking import Lock
from context_engine.errors import AuditError, ContextEngineError

if TYPE_CHECKING:
    from context_engine.audit.checks.findings import Verification
    from context_engine.audit.ledger.ledger import Ledger

logger = logging.getLogger(__name__)
_AT_ONCE: Final = 1500
"""Records that a page reads before it is shown: a small part of a second."""


class VerifyRun:
    """A verification in the background, and its result.

    Attributes:
        checked, total: records so far, and all of them.
        result: the last result; None before the first.
        finished: when, in seconds since 1970.
        problem: why it could not be made; "" if it could.
    """

    def __init__(self) -> None:
        self.running, self.checked, self.total = False, 0, 0
        self.result: Verification | None = None
        self.finished: float | None = None
        self.problem = ""
        self._lock = Lock()

    def start(self, ledger: Ledger) -> None:
        """Begin unless one is running."""
        with self._lock:
            if self.running:
                return
            self.running, self.checked, self.total = True, 0, ledger.size
        EXECUTOR.submit(lambda: self._verify(ledger), "context-engine-verify")

    def _verify(self, ledger: Ledger) -> None:
        from context_engine.audit.checks.verify import verify

        try:
            ledger.integrate()
            self.result, self.problem = verify(ledger, progress=self._progressed), ""
        except ContextEngineError as error:
            self.result, self.problem = None, str(error)
        except Exception:
            logger.exception("the ledger could not be verified")
            self.result, self.problem = None, "it ended in an unexpected error: the log of the service has the reason"
        finally:
            self.finished, self.running = time.time(), False

    def _progressed(self, checked: int, total: int) -> None:
        self.checked, self.total = checked, total


@dataclass
class Reviewed:
    """What is known about one ledger.

    Attributes:
        replays: whether the last replay of a record gave the same, by index.
    """

    overview: Overview = field(default_factory=Overview)
    replays: dict[int, bool] = field(default_factory=dict)
    verify: VerifyRun = field(default_factory=VerifyRun)

    def differing(self) -> list[int]:
        """Return the indices of the records whose replay differed, the largest first."""
        return sorted((index for index, same in self.replays.items() if not same), reverse=True)


class Reviews:
    """What is known about each open ledger; forgotten with it, for example at a reload. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: WeakKeyDictionary[Ledger, Reviewed] = WeakKeyDictionary()

    def of(self, ledger: Ledger) -> Reviewed:
        """Return what is known, after reading the newest records; many of them are read in the background.

        Raises:
            AuditError: the ledger cannot be read.
        """
        with self._lock:
            reviewed = self._kept.setdefault(ledger, Reviewed())
        if ledger.size - reviewed.overview.size <= _AT_ONCE:
            reviewed.overview.read_on(ledger)
        else:
            EXECUTOR.submit(lambda: _read_on(reviewed.overview, ledger), "context-engine-overview")
        return reviewed


def _read_on(overview: Overview, ledger: Ledger) -> None:
    try:
        overview.read_on(ledger)
    except AuditError as error:  # the next page tries again
        logger.warning("the records could not be counted: %s", error)
