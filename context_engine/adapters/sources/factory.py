"""How the embedded base is opened, checked and written to."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.core.models import Chunk, Settings, SourceSpec
from context_engine.core.protocols import Clock, Embedder, Sink
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.adapters.sources.local import LocalBase, LocalSource
    from context_engine.adapters.sources.local.partitions import Place


_NOT_LOCAL: Final = ("connection", "dataset_ids", "settings")


def base_path(data_dir: Path) -> Path:
    """Return where the embedded base lies below the data folder."""
    return data_dir / "base"


def in_embedded_base(spec: SourceSpec) -> bool:
    """Return whether the embedded base holds the documents of a source."""
    return spec.adapter == "local"


def open_base(
    path: Path, settings: Settings, embedder: Embedder | None, clock: Clock, place: Place | None = None
) -> LocalBase:
    """Return the embedded base in a folder, which need not exist yet, to be searched and written as the settings say.

    Args:
        place: where the documents of each source belong, for who writes.

    Raises:
        ConfigError: weights that merge nothing, or an embedder without numpy.
    """
    from context_engine.adapters.sources.local import LocalBase, SearchOptions

    return LocalBase(path, now=clock.now, embedder=embedder, options=SearchOptions.of(settings), place=place)


def check_local(spec: SourceSpec) -> None:
    """Refuse what the embedded base would ignore.

    Raises:
        ConfigError: the source names a connection, dataset ids or settings.
    """
    for key in _NOT_LOCAL:
        if getattr(spec, key):
            raise ConfigError("adapter 'local' does not use this key: remove it", key=f"sources.{spec.id}.{key}")


class _EmptySink:
    """Holds nothing and keeps nothing: for a dry run where there is no base yet."""

    def put(self, source_id: str, document_id: str, version: str, content_hash: str, chunks: Sequence[Chunk]) -> bool:
        return True

    def delete(self, source_id: str, document_id: str, version: str) -> bool:
        return False

    def documents(self, source_id: str) -> Mapping[tuple[str, str], str]:
        return {}

    def commit(self) -> None:
        return None


@contextmanager
def _open_local_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[Sink]:
    """Open the embedded base for writing, making it where there is none.

    Raises:
        ConfigError: its folder cannot be written to.
        StoreError: it cannot be used, or another process writes to it.
    """
    from context_engine.adapters.sources.local.partitions import places

    path, place = base_path(context.data_dir()), places(specs, context.rules_of)
    with open_base(path, context.settings, context.embedder(), context.clock, place) as base:
        if options.dry_run and not base.exists():
            yield _EmptySink()
            return
        try:
            writer = base.writer()
        except OSError as error:
            raise ConfigError(
                f"the knowledge base cannot be written to {base.path}: {error.strerror or error}. Name a folder that "
                "can be written to with --data-dir or CONTEXT_ENGINE_DATA_DIR."
            ) from error
        with writer:
            yield writer


@source_adapter(check=check_local, open_sink=_open_local_sink)
def open_local(spec: SourceSpec, context: SourceContext) -> LocalSource:
    """Return one source of the embedded base, which need not exist yet; all sources of an engine share one base.

    Raises:
        ConfigError: the source names a connection, dataset ids or settings.
    """
    from context_engine.adapters.sources.local import LocalSource
    from context_engine.adapters.sources.local.partitions import SourcePlace

    check_local(spec)
    path = base_path(context.data_dir())
    base = context.shared(("local", path), lambda: open_base(path, context.settings, context.embedder(), context.clock))
    return LocalSource(base, spec.id, spec=spec, place=SourcePlace(context.rules_of(spec.id), spec.classification))
