"""The contradictions of each domain as the pages last compared them; a comparison runs in the background."""

from __future__ import annotations

import logging
import time
from concurrent.futures import Future
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final
from weakref import WeakKeyDictionary

from context_engine.core.concurrency.calls import EXECUTOR, done_within
from context_engine.core.concurrency.forking import Lock
from context_engine.errors import ContextEngineError

if TYPE_CHECKING:
    from context_engine.core.engine import Engine
    from context_engine.insight.domain_conflicts import DomainConflicts
    from context_engine.service.deployment import Deployment

logger = logging.getLogger(__name__)
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
