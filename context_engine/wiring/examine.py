"""Sources opened to be examined, listed or fetched from, without a search."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import NamedTuple, TypeVar

from context_engine.core.concurrency.deadline import DeadlineExceeded, call_within
from context_engine.core.concurrency.executor import Busy
from context_engine.core.engine import Engine
from context_engine.core.models import (
    AccessScope,
    Chunk,
    DomainSpec,
    Examination,
    ExaminationRequest,
    SourceSpec,
    notices_about,
)
from context_engine.core.protocols import Examinable, Listable, Source
from context_engine.errors import ConfigError, ContextEngineError, SourceError, source_error_from
from context_engine.wiring.adapters import load_source_adapter
from context_engine.wiring.build import SourceOpener, source_opener
from context_engine.wiring.setup import Setup

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceReport:
    """What was found out about one source of a domain.

    Attributes:
        problem: why it cannot be searched as a whole, and how to fix it; of a part see its own.
        examination: what its adapter found out; None where it could not be asked.
        examinable: whether the adapter can examine its sources; None where it could not be opened.
    """

    domain: str
    source_id: str
    adapter: str
    problem: str | None = None
    examination: Examination | None = None
    examinable: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether all of it can be searched."""
        return self.problem is None and (self.examination is None or self.examination.ok)


class _Outcome(NamedTuple):
    examination: Examination | None
    problem: str | None


def examine_source(
    opener: SourceOpener,
    domain: DomainSpec,
    spec: SourceSpec,
    *,
    query: str | None,
    timeout_s: float,
    most_s: float = inf,
    quick: bool = False,
    access: AccessScope | None = None,
) -> SourceReport:
    """Open a source, examine it and close it. If its adapter cannot examine, send it the sample query.

    Opening and searching have the time of a search, an examination `timeout_s` beside. What hangs is left behind in a
    daemon thread.

    Args:
        query, quick, timeout_s, access: see `ExaminationRequest`.
        most_s: seconds after which nobody waits for any of it.
    """
    report = SourceReport(domain=domain.domain, source_id=spec.id, adapter=spec.adapter)
    try:
        values = opener.setup.resolver.base(domain).values
    except ContextEngineError as error:
        return replace(report, problem=str(error))
    search_s = min(spec.timeout_s or values.source_timeout_s, values.deadline_s, most_s)
    request = ExaminationRequest(
        domain=domain.domain,
        query=query,
        quick=quick,
        timeout_s=min(timeout_s, most_s),
        search_timeout_s=search_s,
        access=access,
    )
    source = _within(search_s, lambda: opener.open(domain, spec), spec.id)
    if isinstance(source, str):
        return replace(report, problem=source)
    examinable = isinstance(source, Examinable)
    limit = min(search_s + (timeout_s if examinable else 0.0), most_s)
    outcome = _within(limit, lambda: _examined_and_closed(source, spec.id, request), spec.id)
    if isinstance(outcome, str):
        return replace(report, problem=outcome, examinable=examinable)
    problems = [outcome.examination.problem if outcome.examination else None, outcome.problem]
    return replace(
        report,
        problem="; ".join(filter(None, problems)) or None,
        examination=outcome.examination,
        examinable=examinable,
    )


def adapter_advice(reports: Iterable[SourceReport]) -> Iterator[str]:
    """Yield what the adapters have to say of the servers behind the sources that were examined."""
    by_adapter: dict[str, list[tuple[str, Examination]]] = {}
    for report in reports:
        examinations = by_adapter.setdefault(report.adapter, []) if report.adapter else []
        if report.examination is not None:
            examinations.append((report.domain, report.examination))
    for name, examined in by_adapter.items():
        try:
            advise = load_source_adapter(name).advise
        except ConfigError:  # its sources say so
            continue
        if advise is not None:
            yield from advise(examined)


def _examined_and_closed(source: Source, source_id: str, request: ExaminationRequest) -> _Outcome:
    try:
        outcome = _Outcome(_examined(source, source_id, request), None)
    except BaseException as error:  # noqa: BLE001  it is to be closed all the same
        outcome = _Outcome(None, _message(error, source_id))
    try:
        source.close()
    except BaseException as error:  # noqa: BLE001  what was found out before is kept
        problem = f"it could not be closed: {_message(error, source_id)}"
        outcome = outcome._replace(problem="; ".join(filter(None, [outcome.problem, problem])))
    return outcome


def _examined(source: Source, source_id: str, request: ExaminationRequest) -> Examination:
    if isinstance(source, Examinable):
        return source.examine(request)
    if request.sample is None:
        return Examination()
    answer = source.search(request.sample)
    problems = notices_about(source_id, *(failure.problem for failure in answer.failures))
    return Examination(records=len(answer.chunks), problems=problems)


def _within(seconds: float, call: Callable[[], T], source_id: str) -> T | str:
    """Return what a call returns, or why it gave nothing; it runs in a daemon thread, which may outlive its time."""

    def outcome() -> T | str:
        try:
            return call()
        except BaseException as error:  # noqa: BLE001  whatever an adapter raises is its own source's problem
            return _message(error, source_id)

    try:
        return call_within(seconds, outcome, name=f"examine-{source_id}")
    except DeadlineExceeded:
        return f"no answer within {seconds:g} s"
    except Busy as busy:
        return str(busy)


def _message(error: BaseException, source_id: str) -> str:
    """Return what an error says of its source; of a foreign exception the type alone, as in a search."""
    known = error if isinstance(error, ContextEngineError) else source_error_from(error, source_id)
    return known.problem if isinstance(known, SourceError) else str(known)


@contextmanager
def fetching_engine(setup: Setup, data_dir: str | Path | None = None) -> Iterator[Engine]:
    """Yield an engine to fetch chunks with, under the access rules of a configuration; closed at the end.

    Args:
        data_dir: the folder of the embedded base; see `find_data_dir`.
    """
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    with Engine(setup.registry, opener.open, access=setup.access) as engine:
        yield engine


@contextmanager
def listed_chunks(
    setup: Setup, data_dir: Path, domain: DomainSpec, spec: SourceSpec
) -> Iterator[Iterator[Chunk] | None]:
    """Yield the chunks of a source as they are read; None where it cannot be opened, or cannot list them.

    No model is opened for it.

    Raises:
        SourceError, StoreError: they can be listed, but not now; raised as they are read.
    """
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    try:
        source = opener.open(domain, spec)
    except (ConfigError, SourceError):  # a search says what is wrong with it
        yield None
        return
    try:
        yield source.list_chunks() if isinstance(source, Listable) else None
    finally:
        source.close()
