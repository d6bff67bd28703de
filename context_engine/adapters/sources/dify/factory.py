"""How a manifest's `adapter: dify` is opened, checked and written to."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.adapters.sources.dify.server_notes import server_notes
from context_engine.adapters.sources.dify.settings import check_dify
from context_engine.adapters.sources.dify.sink import DifySink
from context_engine.adapters.sources.dify.source import DifySource
from context_engine.adapters.sources.dify.workspace import Workspace
from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.errors import ConfigError, StoreError


def dify_sources(domain: DomainSpec) -> list[SourceSpec]:
    """Return the sources of a domain that this adapter opens."""
    return [source for source in domain.sources if source.adapter == "dify"]


@contextmanager
def open_dify_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[DifySink]:
    """Open the datasets of the sources for writing; of one configuration one process at a time.

    Raises:
        ConfigError: a source or connection cannot be used.
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
            for one in opened.values():
                one.close()


def _lock(stack: ExitStack, context: SourceContext) -> None:
    from context_engine.adapters.sources.local.lock import WriterLock  # only here: it brings the embedded base

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
    """Return a Dify source; its connection is read now, so that a missing variable shows before the first search.

    Raises:
        ConfigError: the specification or the connection cannot be used.
    """
    check_dify(spec)
    assert spec.connection is not None
    connect = partial(context.connection, spec.connection)
    workspace: Workspace = context.shared(("dify", spec.connection), lambda: Workspace(connect, context.clock))
    workspace.access()
    return DifySource(spec, workspace, context.clock, context.timezone)
