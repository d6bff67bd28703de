"""The state that all routes share: deployment, callers, worker threads, readiness, and the jobs run beside requests."""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel

from context_engine.apps.dify.external import ExternalAnswer
from context_engine.apps.server.late import LateSearches
from context_engine.apps.server.limits import RateLimits, Rates
from context_engine.apps.server.metrics import Metrics, WorkerReports
from context_engine.apps.server.quality import QualityCheck
from context_engine.apps.server.slots import Bounds, Slots, Turn
from context_engine.core.concurrency.calls import EXECUTOR, Busy, submit_all
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import Authenticated, DomainSpec, Settings, SourceSpec
from context_engine.core.protocols import Authenticator
from context_engine.errors import ContextEngineError, InvalidRequest, NotAuthenticated, Overloaded, TokensUnchecked
from context_engine.jobs.owned import OwnedJobs
from context_engine.service.deployment import Deployment, LiveDeployment
from context_engine.wiring.build import source_opener
from context_engine.wiring.examine import ExaminedSource, examine_source

T = TypeVar("T")
Work = Callable[[Deployment, Authenticated], T]
ANY_TURN: Final = Turn()
_THREAD: Final = "context-engine-request"
logger = logging.getLogger(__name__)
_MOST: Final = 4  # each takes about as much as one caller


class Service:
    """The service, stored in the app as `app.state.service`.

    Args:
        live: the deployment in force.
        authenticator: authenticates callers.
        threads: most requests in progress; None: `server_max_concurrent`.
        own_names_only: refuse requests whose Host is not this machine, because no token keeps web pages out.
        renew: applies a reloaded configuration to the authenticator; an exception refuses the reload.
        rates: the rate limits; None: of this process.
        reports: the metrics of all workers; None: this process is the only one.
    """

    def __init__(
        self,
        live: LiveDeployment,
        authenticator: Authenticator,
        *,
        threads: int | None = None,
        own_names_only: bool = False,
        renew: Callable[[Deployment], None] | None = None,
        rates: Rates | None = None,
        reports: WorkerReports | None = None,
    ) -> None:
        self.live, self.authenticator, self.own_names_only = live, authenticator, own_names_only
        self.readiness = Readiness(live, lambda: authenticator.problems())
        self._renew, self._threads = renew, threads
        self.slots = Slots(self._bounds)
        self.rates: Rates = RateLimits(time.monotonic) if rates is None else rates
        self.late = LateSearches[ExternalAnswer]()
        self.jobs = RunningJobs(live)
        self.quality = QualityCheck(live)
        self.metrics, self.reports = Metrics(self), reports

    @property
    def settings(self) -> Settings:
        """The settings in force."""
        return self.live.current.settings

    @property
    def of_first(self) -> bool:
        """Whether this process does what one of several workers shall do."""
        return self.reports is None or self.reports.of_first

    @property
    def state(self) -> str:
        """The state that anonymous callers may see."""
        return self.readiness.state

    async def call(self, request: Request, work: Work[T], turn: Turn = ANY_TURN) -> T:
        """Run `work` in a thread with the deployment and the caller, and return its result.

        Raises:
            NotAuthenticated: no valid token.
            Overloaded: too many requests are waiting, or the wait would be too long.
        """
        caller = caller_of(request)
        line = turn.line or caller.principal.id
        waited = await self.slots.take(line, domain=turn.domain, patience_s=turn.patience_s)
        if waited and not turn.outlasts and await self._left(request, turn.domain):
            self.slots.release(turn.domain)
            raise Overloaded("the caller has gone while the request waited")
        return await self._worked(lambda deployment: work(deployment, caller), turn.domain)

    async def run(self, work: Callable[[Deployment], T]) -> T:
        """Run `work` in a thread with the deployment, without a request, and return its result.

        Raises:
            Overloaded: too many requests are waiting.
        """
        await self.slots.take()
        return await self._worked(work)

    async def json(self, request: Request, work: Work[BaseModel], turn: Turn = ANY_TURN) -> Response:
        """Return the answer of `work` as JSON, encoded once in the thread."""
        body = await self.call(request, lambda deployment, caller: work(deployment, caller).model_dump_json(), turn)
        return Response(body, media_type="application/json")

    def reload(self) -> None:
        """Reload the configuration; running requests end with the one they began with.

        Raises:
            ContextEngineError: unusable; the current one stays in force.
        """
        try:
            self.live.reload(self._renew)
        except BaseException as error:
            self.readiness.reload_failed(error)
            raise
        self.readiness.reloaded()

    def close(self) -> None:
        """Stop background work; may be called twice."""
        self.jobs.close()
        self.authenticator.close()
        self.live.close()

    async def _left(self, request: Request, domain: str | None) -> bool:
        """Return whether the caller of a request with a slot has disconnected; frees the slot if cancelled."""
        try:
            return await request.is_disconnected()
        except BaseException:
            self.slots.release(domain)
            raise

    async def _worked(self, work: Callable[[Deployment], T], domain: str | None = None) -> T:
        """Run in a taken slot, which is freed when the thread ends, even if nobody waits for it."""

        def run() -> T:
            with self.live.use() as deployment:
                return work(deployment)

        begun = time.monotonic()
        try:
            future = asyncio.wrap_future(EXECUTOR.submit(run, _THREAD))
        except BaseException as error:
            self.slots.release(domain)
            if isinstance(error, Busy):
                raise Overloaded(str(error)) from None
            raise
        future.add_done_callback(lambda _: self.slots.release(domain, time.monotonic() - begun))
        return await asyncio.shield(future)

    def _bounds(self) -> Bounds:
        settings = self.settings
        most = self._threads or settings.server_max_concurrent
        return Bounds(most, settings.server_max_waiting, shared=len(self.live.current.setup.registry.names) > 1)


def service_of(request: Request) -> Service:
    """Return the service of a request's app."""
    service: Service = request.app.state.service
    return service


def caller_of(request: Request) -> Authenticated:
    """Return the caller.

    Raises:
        NotAuthenticated: no valid token.
        TokensUnchecked: the token cannot be checked now.
    """
    known: Authenticated | None = request.scope.get("state", {}).get("caller")
    return known or service_of(request).authenticator.authenticate(request.headers.get("authorization"))


def known_caller(request: Request) -> Authenticated | None:
    """Return the caller; None without a valid token, at an address that needs none."""
    try:
        return caller_of(request)
    except (NotAuthenticated, TokensUnchecked):
        return None


def request_id_of(request: Request) -> str:
    """Return the id of a request, which the answer repeats as X-Request-Id."""
    request_id: str = request.scope.get("state", {}).get("request_id", "")
    return request_id


_State = Literal["ready", "degraded", "starting", "draining", "no_source", "tokens_unchecked"]
_EVERY_S: Final = 15.0
"""Seconds for which an examination is reused, so that frequent readiness checks do not load the sources."""
_MOST_S: Final = 5.0
_WIDTH: Final = 8
_SAMPLE: Final = "approval limit policy"


@dataclass(frozen=True, slots=True)
class _ExaminedDeployment:
    """The result of an examination: for each source, why it cannot be searched, or None."""

    deployment: Deployment
    problems: Mapping[tuple[str, str], str | None]
    at: float


class Readiness:
    """Keeps the last examination of the sources. Thread-safe.

    Args:
        live: the deployment in force.
        unchecked: returns why some tokens cannot be checked now; () if all can.
    """

    def __init__(self, live: LiveDeployment, unchecked: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._live, self._lock, self.unchecked = live, Lock(), unchecked
        self._found: _ExaminedDeployment | None = None
        self._looking: Future[None] | None = None
        self.draining = False
        self.reload_problem: str | None = None

    @property
    def state(self) -> _State:
        """The state that anonymous callers may see."""
        if self.draining:
            return "draining"
        snapshot = self._found
        if snapshot is None:
            return "starting"
        if self.unchecked():
            return "tokens_unchecked"
        problems = snapshot.problems.values()
        if problems and all(problems):
            return "no_source"
        return "degraded" if any(problems) or self.reload_problem else "ready"

    @property
    def problems(self) -> Mapping[tuple[str, str], str | None]:
        """The problem of each domain and source, or None; empty before the first examination.

        The source is "" for an unusable manifest, and so is the domain if it is unknown.
        """
        return {} if self._found is None else self._found.problems

    @property
    def manifest_unusable(self) -> bool:
        """Whether any manifest is unusable; public, unlike its name."""
        return any(problem and not source for (_, source), problem in self.problems.items())

    def look(self) -> Future[None] | None:
        """Start an examination in the background unless the last is fresh; return its future."""
        with self._lock:
            if self._looking is None and not self._fresh():
                self._looking = EXECUTOR.submit(self._examine, "context-engine-readiness")
            return self._looking

    def reloaded(self) -> None:
        """Note that a new configuration is in force."""
        self.reload_problem = None
        self.look()

    def reload_failed(self, error: BaseException) -> None:
        """Note that a new configuration was refused."""
        self.reload_problem = str(error) if isinstance(error, ContextEngineError) else type(error).__name__

    def _fresh(self) -> bool:
        snapshot = self._found
        same = snapshot is not None and snapshot.deployment is self._live.current
        return same and snapshot is not None and time.monotonic() - snapshot.at < _EVERY_S

    def _examine(self) -> None:
        try:
            with self._live.use() as deployment:
                problems = _problems(deployment)
                self._found = _ExaminedDeployment(deployment, problems, time.monotonic())
        finally:
            with self._lock:
                self._looking = None


def _problems(deployment: Deployment) -> dict[tuple[str, str], str | None]:
    """Examine every source of every domain, each with a time limit."""
    registry = deployment.setup.registry
    opener = source_opener(deployment.setup, data_dir=deployment.data_dir, embedder=lambda: None)
    pairs = [(domain, spec) for domain in registry.domains.values() for spec in domain.sources]

    def problem(domain: DomainSpec, spec: SourceSpec) -> str | None:
        report = examine_source(opener, domain, spec, query=_SAMPLE, timeout_s=_MOST_S, most_s=_MOST_S, quick=True)
        return None if report.ok else report.problem or _problem_of_parts(report)

    calls = [lambda domain=domain, spec=spec: problem(domain, spec) for domain, spec in pairs]
    futures = submit_all(calls, width=_WIDTH, name="context-engine-readiness")
    problems = {
        (domain.domain, spec.id): future.result() for (domain, spec), future in zip(pairs, futures, strict=True)
    }
    unread = {("", ""): "; ".join(map(str, registry.unread))} if registry.unread else {}
    return {**unread, **{(name, ""): str(problem) for name, problem in registry.broken.items()}, **problems}


def _problem_of_parts(report: ExaminedSource) -> str:
    parts = () if report.examination is None else report.examination.parts
    problems = (f"{part.name or part.id}: {part.problem}" for part in parts if part.problem)
    return "; ".join(problems) or "a part of it cannot be searched"


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
        self._live, self._lock = live, threading.Condition()
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

    def close(self, timeout_s: float = 0.0) -> None:
        """Let each run end after the document that it reads, and wait for it; may be called twice."""
        self._stopped = True
        with self._lock:
            self._lock.wait_for(lambda: not any(state.running for state in self._states.values()), timeout_s)

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
        if problem is not None:
            logger.warning("the run of job %s ended early, run it again to continue: %s", job_id, problem)
        with self._lock:
            self._states[job_id] = RunState(problem=problem)
            self._lock.notify_all()
