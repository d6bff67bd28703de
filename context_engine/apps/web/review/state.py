"""What the review pages keep in memory about a ledger: its overview, the replays made, and the last verification.

The contradictions of each domain are kept as last compared; a comparison runs in the background.
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from context_engine.audit.review.overview import Overview
from context_engine.core.concurrency.calls import EXECUTOR, done_within
from context_engine.core.concurrency.forking import Lock
from context_engine.errors import AuditError, ContextEngineError

if TYPE_CHECKING:
    from context_engine.audit.checks.findings import Verification
    from context_engine.audit.ledger.ledger import Ledger
    from context_engine.core.engine import Engine
    from context_engine.insight.domain_conflicts import DomainConflicts
    from context_engine.service.deployment import Deployment

logger = logging.getLogger(__name__)
_AT_ONCE: Final = 1500
"""Records that a page reads before it is shown: a small part of a second."""
_PATIENCE_S: Final = 3.0
"""Seconds that a page waits for a comparison; a small base needs less."""


class ConflictRun:
    """The last comparison of a domain, and the one that is running.

    Attributes:
        result: of the last comparison; None before the first.
        finished: when it ended, in seconds since 1970.
        problem: why it could not be made; "" if it could.
    """

    def __init__(self) -> None:
        self.result: DomainConflicts | None = None
        self.finished: float | None = None
        self.problem = ""
        self._lock = Lock()
        self._future: Future[None] | None = None

    @property
    def running(self) -> bool:
        """Whether a comparison is under way."""
        return self._future is not None and not self._future.done()

    def start(self, deployment: Deployment, domain: str) -> None:
        """Begin unless one is running."""
        with self._lock:
            if not self.running:
                work = partial(self._compare, deployment, domain)
                self._future = EXECUTOR.submit(work, "context-engine-conflicts")

    def wait(self) -> None:
        """Wait a moment for the one that is running."""
        if self._future is not None:
            done_within(self._future, _PATIENCE_S)

    def _compare(self, deployment: Deployment, domain: str) -> None:
        from context_engine.insight.domain_conflicts import domain_conflicts

        setup = deployment.setup
        try:
            today = datetime.now(UTC).date()
            self.result = domain_conflicts(setup, setup.data_dir(deployment.data_dir), domain, today)
            self.problem = ""
        except ContextEngineError as error:
            self.problem = str(error)
        except Exception:
            logger.exception("the documents could not be compared")
            self.problem = "it ended in an unexpected error: the log of the service has the reason"
        finally:
            self.finished = time.time()


class ConflictRuns:
    """The comparisons of each open deployment; forgotten with it, for example at a reload. Thread-safe."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: WeakKeyDictionary[Engine, dict[str, ConflictRun]] = WeakKeyDictionary()

    def of(self, deployment: Deployment, domain: str) -> ConflictRun:
        """Return the comparison of a domain; the first one is started."""
        with self._lock:
            run = self._kept.setdefault(deployment.engine, {}).setdefault(domain, ConflictRun())
        if run.finished is None:
            run.start(deployment, domain)
        return run


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
