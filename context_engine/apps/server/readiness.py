"""Whether the service can answer: sources that are down, tokens it cannot check, a stop, a reload that failed."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Literal

from context_engine.core.concurrency.executor import EXECUTOR
from context_engine.core.concurrency.fan_out import submit_all
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.errors import ContextEngineError
from context_engine.service.deployment import Deployment, LiveDeployment
from context_engine.wiring import SourceReport, examine_source, source_opener

_State = Literal["ready", "degraded", "starting", "draining", "no_source", "tokens_unchecked"]

_EVERY_S: Final = 15.0
"""What was found out is good for this long; nobody asks a source more often, however often readiness is asked."""

_MOST_S: Final = 5.0
_WIDTH: Final = 8
_SAMPLE: Final = "approval limit policy"


@dataclass(frozen=True, slots=True)
class _Found:
    """What an examination found: why a source of a domain cannot be searched, None where it can."""

    deployment: Deployment
    problems: Mapping[tuple[str, str], str | None]
    at: float


class Readiness:
    """Keeps what is known of the sources; safe for many threads.

    Args:
        live: the deployment in force.
        unchecked: says why some tokens cannot be checked now, () where all can.
    """

    def __init__(self, live: LiveDeployment, unchecked: Callable[[], tuple[str, ...]] = tuple) -> None:
        self._live, self._lock, self.unchecked = live, Lock(), unchecked
        self._found: _Found | None = None
        self._looking: Future[None] | None = None
        self.draining = False
        self.reload_problem: str | None = None

    @property
    def state(self) -> _State:
        """What may be said to anybody."""
        if self.draining:
            return "draining"
        found = self._found
        if found is None:
            return "starting"
        if self.unchecked():
            return "tokens_unchecked"
        problems = found.problems.values()
        if problems and all(problems):
            return "no_source"
        return "degraded" if any(problems) or self.reload_problem else "ready"

    @property
    def problems(self) -> Mapping[tuple[str, str], str | None]:
        """By domain and source why it cannot be searched, None where it can; empty before the first examination.

        The source is "" where a manifest cannot be used, the domain too where it does not say which it holds.
        """
        return {} if self._found is None else self._found.problems

    @property
    def manifest_unusable(self) -> bool:
        """Whether a manifest cannot be used; anybody may be told that, as of a reload that failed, but not of which."""
        return any(problem and not source for (_, source), problem in self.problems.items())

    def look(self) -> Future[None] | None:
        """Have the sources examined beside, unless what is known is fresh; return what is done when that is."""
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
        found = self._found
        same = found is not None and found.deployment is self._live.current
        return same and found is not None and time.monotonic() - found.at < _EVERY_S

    def _examine(self) -> None:
        try:
            with self._live.use() as deployment:
                problems = _problems(deployment)
                self._found = _Found(deployment, problems, time.monotonic())
        finally:
            with self._lock:
                self._looking = None


def _problems(deployment: Deployment) -> dict[tuple[str, str], str | None]:
    """Ask every source of every domain; each has its time, so the whole has an end."""
    registry = deployment.setup.registry
    opener = source_opener(deployment.setup, data_dir=deployment.data_dir, embedder=lambda: None)
    pairs = [(domain, spec) for domain in registry.domains.values() for spec in domain.sources]

    def problem(domain: DomainSpec, spec: SourceSpec) -> str | None:
        report = examine_source(opener, domain, spec, query=_SAMPLE, timeout_s=_MOST_S, most_s=_MOST_S, quick=True)
        return None if report.ok else report.problem or _problem_of_parts(report)

    calls = [lambda domain=domain, spec=spec: problem(domain, spec) for domain, spec in pairs]
    futures = submit_all(calls, width=_WIDTH, name="context-engine-readiness")
    found = {(domain.domain, spec.id): one.result() for (domain, spec), one in zip(pairs, futures, strict=True)}
    unread = {("", ""): "; ".join(map(str, registry.unread))} if registry.unread else {}
    return {**unread, **{(name, ""): str(problem) for name, problem in registry.broken.items()}, **found}


def _problem_of_parts(report: SourceReport) -> str:
    parts = () if report.examination is None else report.examination.parts
    said = (f"{one.name or one.id}: {one.problem}" for one in parts if one.problem)
    return "; ".join(said) or "a part of it cannot be searched"
