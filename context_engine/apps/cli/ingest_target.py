"""Where `ingest` writes: the embedded base, or datasets of Dify."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Final

from context_engine.apps.cli.console import note
from context_engine.apps.cli.context import Workspace
from context_engine.core.models import Chunk, SourceSpec
from context_engine.errors import ConfigError, InvalidRequest, StoreError, nearest

if TYPE_CHECKING:
    from context_engine.adapters.sources.dify.sink import DifySink
    from context_engine.adapters.sources.dify.workspace import Workspace as Reach
    from context_engine.core.protocols import DocumentSink
    from context_engine.wiring.models import Models

__all__ = ["TARGETS", "dify_sink", "local_sink", "takers", "told_sleep"]

TARGETS: Final = ("local", "dify")
_FIRST_TOLD_S: Final = 10.0


def takers(domain: str, sources: Sequence[SourceSpec], to: str, source_id: str | None) -> Sequence[SourceSpec]:
    """Return the sources of a domain that documents go to.

    Raises:
        InvalidRequest: the domain has none of that kind, or not the one that is named.
    """
    fitting = [source for source in sources if source.adapter == to]
    if not fitting:
        what = "the embedded base (adapter: local)" if to == "local" else "Dify (adapter: dify)"
        others = sorted({source.adapter for source in sources if source.adapter in TARGETS})
        hint = f"; --to {others[0]} writes to those it has" if others else ""
        raise InvalidRequest(f"domain {domain!r} has no source of {what}{hint}")
    if source_id is None:
        return fitting
    named = [source for source in fitting if source.id == source_id]
    if not named:
        ids = [source.id for source in fitting]
        raise InvalidRequest(f"source {source_id!r} is not one that --to {to} writes to.{nearest(source_id, ids)}")
    return named


class _Nothing:
    """An empty sink for a dry run where there is no base yet."""

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        return False

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        return {}

    def commit(self) -> None:
        return None


@contextmanager
def local_sink(workspace: Workspace, models: Models, *, dry_run: bool) -> Iterator[DocumentSink]:
    """Open the embedded base for writing, with the embedder of these models.

    Raises:
        ConfigError: its folder cannot be written to.
        StoreError: it cannot be used, or another process writes to it.
    """
    with workspace.open_base(models) as opened:
        if dry_run and not opened.exists():
            yield _Nothing()
            return
        try:
            writer = opened.writer()
        except OSError as error:
            raise ConfigError(
                f"the knowledge base cannot be written to {opened.path}: {error.strerror or error}. Name a folder that "
                "can be written to with --data-dir or CONTEXT_ENGINE_DATA_DIR."
            ) from error
        with writer:
            yield writer


@contextmanager
def dify_sink(workspace: Workspace, specs: Sequence[SourceSpec], *, dry_run: bool, repair: bool) -> Iterator[DifySink]:
    """Open the datasets of the sources for writing; of one configuration one process at a time.

    Raises:
        ConfigError: a source or connection cannot be used.
        StoreError: another process writes to Dify.
    """
    from context_engine.adapters.sources.dify.sink import DifySink
    from context_engine.adapters.sources.dify.workspace import Workspace as DifyWorkspace
    from context_engine.core.engine import SystemClock

    clock, opened = SystemClock(), dict[str, "Reach"]()
    connect: Callable[[str], object] = workspace.setup.config.connections.get

    def reach(name: str) -> Reach:
        if name not in opened:
            opened[name] = DifyWorkspace(partial(workspace.setup.config.connections.get, name), clock)
        return opened[name]

    with ExitStack() as stack:
        if not dry_run:
            _lock(stack, workspace)
        for name in {spec.connection for spec in specs if spec.connection}:
            connect(name)
        try:
            yield DifySink(specs, reach, clock, read_only=dry_run, repair=repair, sleep=told_sleep())
        finally:
            for one in opened.values():
                one.close()


def told_sleep() -> Callable[[float], None]:
    """Return a sleep that says so when the waiting for Dify adds up."""
    waited, due = 0.0, _FIRST_TOLD_S

    def wait(seconds: float) -> None:
        nonlocal waited, due
        waited += seconds
        if waited >= due:
            note(f"Waiting for Dify (its rate limit, its indexing or an outage): {waited:.0f} s so far.")
            due = waited * 3
        time.sleep(seconds)

    return wait


def _lock(stack: ExitStack, workspace: Workspace) -> None:
    from context_engine.adapters.sources.local.lock import WriterLock

    folder = workspace.data_dir / "dify"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        stack.enter_context(WriterLock(folder))
    except OSError as error:
        problem = f"{folder} cannot be written to: {error.strerror or error}. Name another with --data-dir."
        raise ConfigError(problem) from error
    except StoreError as error:
        raise type(error)(f"another process is writing to Dify: {error}") from error
