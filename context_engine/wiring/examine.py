"""Opens sources for purposes other than a search: to examine, list or fetch, or to use a capability of their store."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import NamedTuple, TypeVar

from context_engine.core.concurrency.awaiting import awaited, close
from context_engine.core.concurrency.calls import Busy, DeadlineExceeded, call_within
from context_engine.core.engine import Engine
from context_engine.core.models import (
    AccessScope,
    Chunk,
    DomainSpec,
    Examination,
    ExaminationRequest,
    NoticeCode,
    SourceAnswer,
    SourceSpec,
    notices_about,
)
from context_engine.core.protocols import CAPABILITIES, Examinable, Listable, Source
from context_engine.errors import ConfigError, ContextEngineError, SourceError, source_error_from
from context_engine.wiring.adapters import load_source_adapter
from context_engine.wiring.build import SourceOpener, source_opener
from context_engine.wiring.embedded_base import EMBEDDED
from context_engine.wiring.setup import Setup

C = TypeVar("C")
T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class ExaminedSource:
    """The result of examining one source of a domain.

    Attributes:
        problem: why the whole source cannot be searched, and how to fix it; parts have their own.
        examination: the adapter's findings; None if it could not be asked.
        examinable: whether the adapter can examine sources; None if it could not be opened.
    """

    domain: str
    source_id: str
    adapter: str
    problem: str | None = None
    examination: Examination | None = None
    examinable: bool | None = None

    @property
    def ok(self) -> bool:
        """Whether the whole source can be searched."""
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
) -> ExaminedSource:
    """Open a source, examine it and close it. If its adapter cannot examine, send it the sample query.

    Opening and searching have the time of a search, an examination has `timeout_s` more. A call that hangs is left
    behind in a daemon thread.

    Args:
        query, quick, timeout_s, access: see `ExaminationRequest`.
        most_s: seconds to wait at most for everything.
    """
    report = ExaminedSource(domain=domain.domain, source_id=spec.id, adapter=spec.adapter)
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
        examination=None if outcome.examination is None else _with_remarks(outcome.examination, spec.id, request),
        examinable=examinable,
    )


def _with_remarks(examination: Examination, name: str, request: ExaminationRequest) -> Examination:
    """Add a warning to a source, and to each of its parts, that holds nothing or that the sample query found empty."""
    parts = tuple(_with_remarks(part, part.id, request) for part in examination.parts)
    examination = replace(examination, parts=parts)
    if examination.problems or any(warning.code is NoticeCode.DATASET_EMPTY for warning in examination.warnings):
        return examination
    if examination.documents == 0:
        remark = "it holds no document, so every search of it is empty"
    elif examination.records == 0:
        remark = (
            f"the sample query {request.query!r} found nothing in it: try one of its own words, doctor --query 'WORDS'"
        )
    else:
        return examination
    return replace(examination, warnings=(*examination.warnings, *notices_about(name, remark)))


def adapter_advice(reports: Iterable[ExaminedSource]) -> Iterator[str]:
    """Yield the adapters' advice about the servers of the examined sources."""
    by_adapter: dict[str, list[tuple[str, Examination]]] = {}
    for report in reports:
        examinations = by_adapter.setdefault(report.adapter, []) if report.adapter else []
        if report.examination is not None:
            examinations.append((report.domain, report.examination))
    for name, examined in by_adapter.items():
        try:
            advise = load_source_adapter(name).advise
        except ConfigError:  # reported with its sources
            continue
        if advise is not None:
            yield from advise(examined)


def _examined_and_closed(source: Source, source_id: str, request: ExaminationRequest) -> _Outcome:
    try:
        outcome = _Outcome(_examined(source, source_id, request), None)
    except BaseException as error:  # noqa: BLE001  it must be closed in any case
        outcome = _Outcome(None, _message(error, source_id))
    try:
        close(source)
    except BaseException as error:  # noqa: BLE001  keep the earlier findings
        problem = f"it could not be closed: {_message(error, source_id)}"
        outcome = outcome._replace(problem="; ".join(filter(None, [outcome.problem, problem])))
    return outcome


def _examined(source: Source, source_id: str, request: ExaminationRequest) -> Examination:
    if isinstance(source, Examinable):
        return awaited(source.examine(request))  # type: ignore[no-any-return]
    if request.sample is None:
        return Examination()
    answer: SourceAnswer = awaited(source.search(request.sample))
    problems = notices_about(source_id, *(failure.problem for failure in answer.failures))
    return Examination(records=len(answer.chunks), problems=problems)


def _within(seconds: float, call: Callable[[], T], source_id: str) -> T | str:
    """Return the result of a call, or the reason for its failure. It runs in a daemon thread, which may outlive the
    timeout.
    """

    def outcome() -> T | str:
        try:
            return call()
        except BaseException as error:  # noqa: BLE001  any exception of an adapter is a problem of its source only
            return _message(error, source_id)

    try:
        return call_within(seconds, outcome, name=f"examine-{source_id}")
    except DeadlineExceeded:
        return f"no answer within {seconds:g} s"
    except Busy as busy:
        return str(busy)


def _message(error: BaseException, source_id: str) -> str:
    """Return the message of an error; of a foreign exception only the type, as in a search."""
    known = error if isinstance(error, ContextEngineError) else source_error_from(error, source_id)
    return known.problem if isinstance(known, SourceError) else str(known)


@contextmanager
def fetching_engine(setup: Setup, data_dir: str | Path | None = None) -> Iterator[Engine]:
    """Yield an engine that fetches chunks under the configured access rules; close it at the end.

    Args:
        data_dir: the folder of the embedded base; see `find_data_dir`.
    """
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    with Engine(setup.registry, opener.open, access=setup.access) as engine:
        yield engine


def offered(source: Source, capability: type[C]) -> C | None:
    """Return the object with a capability: the source or its `store`; None if neither has it.

    Args:
        capability: one of `CAPABILITIES`.
    """
    for candidate in (source, getattr(source, "store", None)):
        if isinstance(candidate, capability):
            return candidate
    return None


@contextmanager
def opened_store(opener: SourceOpener, domain: DomainSpec, spec: SourceSpec, capability: type[C]) -> Iterator[C]:
    """Open a source and yield the object with the capability (`offered`); close the source at the end.

    Raises:
        ConfigError: the source cannot be opened, or its adapter does not offer the capability.
        SourceError: the source cannot be opened now.
    """
    source = opener.open(domain, spec)
    try:
        store = offered(source, capability)
        if store is None:
            name = CAPABILITIES[capability]
            raise ConfigError(f"adapter {spec.adapter!r} does not offer {name}", key=f"sources.{spec.id}.adapter")
        yield store
    finally:
        close(source)


def taught_source(domain: DomainSpec) -> SourceSpec:
    """Return the source whose store learns for a domain: of the embedded base, else its first source."""
    return min(domain.sources, key=lambda source: source.adapter != EMBEDDED)


@contextmanager
def listed_chunks(
    setup: Setup, data_dir: Path, domain: DomainSpec, spec: SourceSpec
) -> Iterator[Iterator[Chunk] | None]:
    """Return an iterator over the chunks of a source; None if it cannot be opened or cannot list. Opens no model.

    Raises:
        SourceError, StoreError: listing failed; raised during iteration.
    """
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    try:
        source = opener.open(domain, spec)
    except (ConfigError, SourceError):  # a search reports the problem
        yield None
        return
    try:
        listable = offered(source, Listable)
        yield None if listable is None else listable.list_chunks()
    finally:
        close(source)


def listed_domain(setup: Setup, data_dir: Path, domain: DomainSpec) -> tuple[list[tuple[SourceSpec, Chunk]], list[str]]:
    """Return the chunks of a domain with their sources, and the ids of the sources that cannot list theirs.

    Raises:
        SourceError, StoreError: listing failed.
    """
    listed, unread = list[tuple[SourceSpec, Chunk]](), list[str]()
    for source in domain.sources:
        with listed_chunks(setup, data_dir, domain, source) as chunks:
            if chunks is None:
                unread.append(source.id)
            else:
                listed += [(source, chunk) for chunk in chunks]
    return listed, unread
