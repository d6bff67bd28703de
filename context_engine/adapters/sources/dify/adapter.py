"""Dify sources opened from a manifest, and Dify as a function: `adapter(query, domain, top_k)`."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.adapters.sources.callable import ChunkDicts
from context_engine.adapters.sources.dify.answer import Part, merged
from context_engine.adapters.sources.dify.examine import server_notes
from context_engine.adapters.sources.dify.fair_queue import Ticket, ask_each
from context_engine.adapters.sources.dify.settings import check_dify
from context_engine.adapters.sources.dify.sink import DifySink
from context_engine.adapters.sources.dify.source import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.core.concurrency.forking import Lock
from context_engine.core.engine.permission import readable
from context_engine.core.models import (
    NOBODY,
    Chunk,
    DomainSpec,
    Principal,
    Registry,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    checked_top_k,
)
from context_engine.core.policy.access import OPEN_ACCESS, AccessViews
from context_engine.core.policy.trust import effective_authority
from context_engine.core.protocols import AccessPolicy, Clock
from context_engine.errors import ConfigError, InvalidRequest, SourceError, StoreError
from context_engine.settings.connections import Connection


def dify_sources(domain: DomainSpec) -> list[SourceSpec]:
    """Return the sources of a domain that this adapter opens."""
    return [source for source in domain.sources if source.adapter == "dify"]


@contextmanager
def open_dify_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[DifySink]:
    """Open the datasets of the sources for writing; a lock allows one process per configuration.

    Raises:
        ConfigError: a source or connection is unusable.
        StoreError: another process writes to Dify.
    """
    opened: dict[str, Workspace] = {}

    def workspace(connection: str) -> Workspace:
        if connection not in opened:
            opened[connection] = Workspace(partial(context.connection, connection), context.clock)
        return opened[connection]

    with ExitStack() as stack:
        if not options.dry_run:
            _lock(stack, context)
        for connection in {spec.connection for spec in specs if spec.connection}:
            context.connection(connection)
        sink = DifySink(
            specs,
            workspace,
            context.clock,
            read_only=options.dry_run,
            repair=options.repair,
            sleep=options.sleep,
            tell=options.tell,
        )
        try:
            yield sink
            sink.settle()
        finally:
            for workspace_opened in opened.values():
                workspace_opened.close()


def _lock(stack: ExitStack, context: SourceContext) -> None:
    folder = context.data_dir() / "dify"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(WriterLock(folder))
    except OSError as error:
        problem = f"{folder} cannot be written to: {error.strerror or error}. Name another with --data-dir."
        raise ConfigError(problem) from error
    except StoreError as error:
        raise type(error)(f"another process is writing to Dify: {error}") from error


@source_adapter(check=check_dify, open_sink=open_dify_sink, repairs=True, advise=server_notes)
def open_dify(spec: SourceSpec, context: SourceContext) -> DifySource:
    """Return a Dify source; reads its connection now, so that a missing variable fails before the first search.

    Raises:
        ConfigError: the specification or the connection is unusable.
    """
    check_dify(spec)
    assert spec.connection is not None
    connect = partial(context.connection, spec.connection)
    workspace: Workspace = context.shared(("dify", spec.connection), lambda: Workspace(connect, context.clock))
    workspace.access()
    return DifySource(spec, workspace, context.clock, context.timezone)


_MOST_SOURCES: Final = 32


def dify_kb_adapter(
    registry: Registry,
    connection: Callable[[str], Connection],
    clock: Clock,
    *,
    timeout_s: float = 10.0,
    access: AccessPolicy = OPEN_ACCESS,
    principal: Principal = NOBODY,
) -> DifyAdapter:
    """Return a function (query, domain, top_k) over the Dify sources of each domain.

    Args:
        connection: returns a connection by name, reading its files again.
        timeout_s: seconds for one call of the function.
    """
    return DifyAdapter(registry, connection, clock, timeout_s, access, principal)


class DifyAdapter:
    """Searches the Dify sources of a domain that a principal may search. Thread-safe."""

    def __init__(
        self,
        registry: Registry,
        connection: Callable[[str], Connection],
        clock: Clock,
        timeout_s: float,
        access: AccessPolicy,
        principal: Principal,
    ) -> None:
        self._views, self._principal, self._connection = AccessViews(registry, access), principal, connection
        self._clock, self._timeout_s = clock, timeout_s
        self._lock = Lock(reentrant=True)
        self._shared: dict[Hashable, Any] = {}
        self._opened: dict[tuple[str, str], _Opened] = {}

    def acting_as(self, principal: Principal) -> Callable[[str, str, int], ChunkDicts]:
        """Return the function for another principal, over the same connections; equal for equal principals."""
        return _ActingAs(self, principal)

    def __call__(self, query: str, domain: str, top_k: int) -> ChunkDicts:
        """Search for the adapter's own principal; see `search`."""
        return self.search(query, domain, top_k, self._principal)

    def search(self, query: str, domain: str, top_k: int, principal: Principal) -> ChunkDicts:
        """Return chunk dicts, best first, each with its source, type, tier and trust.

        Failures of sources or datasets are in the list's `failures`, and in the status of a search.

        Raises:
            UnknownDomain: the domain is not registered.
            InvalidRequest: the query has no text, top_k is out of range, or the domain has no Dify source.
            ConfigError: a source is unusable.
            PolicyError: the access policy failed.
            SourceError: no source answered.
        """
        view = self._views.of(principal)
        sources = self._sources(view.registry.domain(domain))
        asked = SourceQuery(
            text=query,
            domain=domain,
            top_k=checked_top_k(top_k, "top_k"),
            timeout_s=self._timeout_s,
            access=view.decisions[domain].scope,
        )
        due = self._clock.monotonic() + self._timeout_s
        jobs = [partial(_search, source, asked) for source in sources]
        answers = ask_each(jobs, width=_MOST_SOURCES, left=lambda: due - self._clock.monotonic())
        return _joined(query, domain, top_k, sources, answers)

    def close(self) -> None:
        """Close the connections; may be called twice, and another call opens them again."""
        with self._lock:
            for opened in self._opened.values():
                opened.source.close()

    def _sources(self, domain: DomainSpec) -> tuple[_Opened, ...]:
        specs = dify_sources(domain)
        if not specs:
            raise InvalidRequest(f"domain {domain.domain!r} has no source with 'adapter: dify' in its manifest")
        with self._lock:
            return tuple(self._source(domain, spec) for spec in specs)

    def _source(self, domain: DomainSpec, spec: SourceSpec) -> _Opened:
        key = (domain.domain, spec.id)
        if key not in self._opened:
            self._opened[key] = _Opened(spec, open_dify(spec, self._context(domain)))
        return self._opened[key]

    def _context(self, domain: DomainSpec) -> SourceContext:
        return SourceContext(
            domain=domain.domain,
            data_dir=_no_data,
            connection=self._connection,
            clock=self._clock,
            shared=self._keep,
            timezone=domain.timezone,
        )

    def _keep(self, key: Hashable, make: Callable[[], Any]) -> Any:
        if key not in self._shared:
            self._shared[key] = make()
        return self._shared[key]


@dataclass(frozen=True, slots=True)
class _ActingAs:
    adapter: DifyAdapter
    principal: Principal

    def __call__(self, query: str, domain: str, top_k: int) -> ChunkDicts:
        return self.adapter.search(query, domain, top_k, self.principal)


@dataclass(frozen=True, slots=True)
class _Opened:
    spec: SourceSpec
    source: DifySource


def _no_data() -> Path:
    raise ConfigError("the Dify adapter has no data folder")


def _search(opened: _Opened, query: SourceQuery, _ticket: Ticket) -> SourceAnswer | InvalidRequest:
    spec = opened.spec
    try:
        answer = opened.source.search(query)
        return readable(answer, source_id=spec.id, declared=spec.classification, scope=query.access).answer
    except InvalidRequest as error:
        return error


def _joined(
    query: str,
    domain: str,
    top_k: int,
    sources: tuple[_Opened, ...],
    answers: list[SourceAnswer | InvalidRequest | SourceError],
) -> ChunkDicts:
    parts: list[Part] = []
    failures: list[SourceError] = []
    for source, answer in zip(sources, answers, strict=True):
        if isinstance(answer, InvalidRequest):
            raise answer
        if isinstance(answer, SourceError):
            failures.append(answer)
        else:
            failures += answer.failures
            parts.append(Part(source.spec.id, tuple(_attributed(chunk, source.spec) for chunk in answer.chunks), True))
    if not parts:
        raise failures[0]
    best = merged(parts, query)[:top_k]
    return ChunkDicts(({**chunk.to_dict(), "domain": domain} for chunk in best), failures=tuple(failures))


def _attributed(chunk: Chunk, spec: SourceSpec) -> Chunk:
    """Return the chunk with its authority from the manifest, because a chunk dict is used without the manifest."""
    authority = effective_authority(chunk, spec)
    fields: Mapping[str, Any] = {
        "source_type": authority.source_type,
        "authority_tier": authority.tier,
        "trust_class": authority.trust,
        "classification": authority.classification,
        "ttl_seconds": spec.ttl_seconds if chunk.ttl_seconds is None else chunk.ttl_seconds,
    }
    return chunk._replace(source_id=spec.id, **fields)
