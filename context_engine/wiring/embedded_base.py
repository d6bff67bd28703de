"""Opens, checks and writes the embedded base of a configuration.

Only this package imports `adapters.sources.local`. Other code asks for a capability of any store.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext, source_adapter
from context_engine.adapters.sources.stores.sinks import DrySink
from context_engine.core.models import Settings, SourceSpec
from context_engine.core.protocols import Clock, Embedder, Sink
from context_engine.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from context_engine.adapters.sources.local import LocalBase as LocalBase
    from context_engine.adapters.sources.local import LocalSource
    from context_engine.adapters.sources.local.stats import BaseStats as BaseStats
    from context_engine.adapters.sources.local.stats import PartitionStats as PartitionStats
    from context_engine.adapters.sources.stores.chunk_rows import Place


EMBEDDED: Final = "local"
"""The adapter of the embedded base."""

_NOT_LOCAL: Final = ("connection", "dataset_ids", "settings")


def base_path(data_dir: Path) -> Path:
    """Return where the embedded base lies below the data folder."""
    return data_dir / "base"


def base_file(base: Path) -> Path:
    """Return the database of an embedded base."""
    from context_engine.adapters.sources.local.schema import DATABASE

    return base / DATABASE


def in_embedded_base(spec: SourceSpec) -> bool:
    """Return whether the embedded base holds the documents of a source."""
    return spec.adapter == EMBEDDED


def open_base(
    path: Path, settings: Settings, embedder: Embedder | None, clock: Clock, place: Place | None = None
) -> LocalBase:
    """Return the embedded base in a folder, with the search and write options of the settings. It need not exist yet.

    Args:
        place: where the documents of each source belong; needed for writing.

    Raises:
        ConfigError: all weights are 0, or there is an embedder but no numpy.
    """
    from context_engine.adapters.sources.local import LocalBase, SearchOptions

    return LocalBase(path, now=clock.now, embedder=embedder, options=SearchOptions.of(settings), place=place)


def base_as_it_is(path: Path) -> LocalBase:
    """Return the embedded base in a folder without settings or embedder, to inspect its content."""
    from context_engine.adapters.sources.local import LocalBase

    return LocalBase(path)


def create_base(path: Path, specs: Sequence[SourceSpec], rules_of: Callable[[str], str]) -> LocalBase:
    """Return the embedded base in a folder; an empty one is created if there is none.

    Args:
        specs: the sources that will be written to it.
        rules_of: returns the access rules of a source (`AccessPolicy.rules_of`).
    """
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.adapters.sources.stores.chunk_rows import places

    return LocalBase.open(path, create=True, place=places(specs, rules_of))


def no_base(path: Path) -> StoreError:
    """Return the error for a folder without an embedded base."""
    from context_engine.adapters.sources.local.schema import missing

    return missing(path)


def schema_version() -> int:
    """Return the version of the tables that this version writes."""
    from context_engine.adapters.sources.local.schema import SCHEMA_VERSION

    return SCHEMA_VERSION


def check_local(spec: SourceSpec) -> None:
    """Refuse keys of a source that the embedded base would ignore.

    Raises:
        ConfigError: the source names a connection, dataset ids or settings.
    """
    for key in _NOT_LOCAL:
        if getattr(spec, key):
            raise ConfigError("adapter 'local' does not use this key: remove it", key=f"sources.{spec.id}.{key}")


@contextmanager
def _open_local_sink(specs: Sequence[SourceSpec], context: SourceContext, options: SinkOptions) -> Iterator[Sink]:
    """Open the embedded base for writing; it is created if missing.

    Raises:
        ConfigError: its folder cannot be written to.
        StoreError: the base cannot be used, or another process writes to it.
    """
    from context_engine.adapters.sources.stores.chunk_rows import places

    path, place = base_path(context.data_dir()), places(specs, context.rules_of)
    with open_base(path, context.settings, context.embedder(), context.clock, place) as base:
        if options.dry_run and not base.exists():
            yield DrySink(lambda _source_id: {})
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
    from context_engine.adapters.sources.stores.chunk_rows import SourcePlace

    check_local(spec)
    path = base_path(context.data_dir())
    base = context.shared(("local", path), lambda: open_base(path, context.settings, context.embedder(), context.clock))
    return LocalSource(base, spec.id, spec=spec, place=SourcePlace(context.rules_of(spec.id), spec.classification))
