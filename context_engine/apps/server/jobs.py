"""The jobs that this process runs beside its requests."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final, NamedTuple

from context_engine.core.concurrency.calls import EXECUTOR
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import Authenticated
from context_engine.errors import ContextEngineError, InvalidRequest, Overloaded
from context_engine.jobs.owned import OwnedJobs
from context_engine.service.deployment import LiveDeployment

logger = logging.getLogger(__name__)
_MOST: Final = 4  # each takes about as much as one caller


class RunState(NamedTuple):
    """What this process does with a job.

    Attributes:
        problem: why its last run ended early; None: it did not.
    """

    running: bool = False
    problem: str | None = None


class RunningJobs:
    """Runs jobs in threads of their own; the end of the process stops each after its document. Thread-safe.

    Args:
        live: the deployment in force; a run ends with the one that it began with.
    """

    def __init__(self, live: LiveDeployment) -> None:
        self._live, self._lock = live, Lock()
        self._states: dict[str, RunState] = {}
        self._stopped = False

    def state(self, job_id: str) -> RunState:
        """Return what this process does with a job."""
        with self._lock:
            return self._states.get(job_id, RunState())

    def start(self, job_id: str, caller: Authenticated, question: str | None, *, use_model: bool) -> None:
        """Run a job in the background; see `OwnedJobs.run`.

        Raises:
            InvalidRequest: this process runs it already.
            Overloaded: it runs too many jobs.
        """

        def work() -> None:
            with self._live.use() as deployment:
                jobs = OwnedJobs(deployment, caller)
                jobs.run(job_id, question, use_model=use_model, stopped=lambda: self._stopped)

        with self._lock:
            if self._states.get(job_id, RunState()).running:
                raise InvalidRequest(f"the job {job_id} is running already: wait until it ends")
            if sum(state.running for state in self._states.values()) >= _MOST:
                raise Overloaded(f"{_MOST} jobs are running in this process: start this one when another has ended")
            self._states[job_id] = RunState(running=True)
        EXECUTOR.submit(lambda: self._ended(job_id, work), "context-engine-job")

    def close(self) -> None:
        """Let each run end after the document that it reads; may be called twice."""
        self._stopped = True

    def _ended(self, job_id: str, work: Callable[[], None]) -> None:
        """Do the work and note how it ended."""
        problem = None
        try:
            work()
        except ContextEngineError as error:
            problem = str(error)
        except Exception as error:
            logger.exception("the run of a job failed")
            problem = f"the run failed ({type(error).__name__}): the log of the service says more"
        with self._lock:
            self._states[job_id] = RunState(problem=problem)
