"""What an adapter is given to open a source, and how the embedded base is opened.

An adapter is a function `(spec, context) -> Source`, published by its package in the entry-point group
`context_engine.sources` under the name that a manifest's `adapter:` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from context_engine.core.models import Settings, SourceSpec
from context_engine.core.protocols import Clock, Embedder, Source
from context_engine.errors import ConfigError
from context_engine.settings.connections import Connection

if TYPE_CHECKING:
    from context_engine.adapters.sources.local import LocalBase

__all__ = ["SourceContext", "SourceFactory", "base_path", "check_local", "open_base", "open_local"]

_NOT_LOCAL: Final = ("connection", "dataset_ids", "settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What an adapter may use.

    Attributes:
        domain: the domain the source is opened for.
        settings: those of the pipeline, as they are without a call's own.
        embedder: returns the one embedder of the configuration, None where it names none.
        timezone: IANA name of the zone in which the domain's dates are days.
        data_dir: returns the folder of the embedded base.
        connection: returns a connection by name, its variables and files read at the call; call it again after a 401.
        clock: the time.
        shared: (key, make) -> what `make` returned for that key the first time: one client or base for many sources
            of an engine. It is closed with each of them, so closing it must be allowed twice.
    """

    domain: str
    data_dir: Callable[[], Path]
    connection: Callable[[str], Connection]
    clock: Clock
    shared: Callable[[Hashable, Callable[[], Any]], Any]
    timezone: str = "UTC"
    settings: Settings = field(default_factory=lambda: Settings())
    embedder: Callable[[], Embedder | None] = lambda: None


SourceFactory = Callable[[SourceSpec, SourceContext], Source]
"""Opens a source.

Raises:
    ConfigError: the specification cannot be used.
    SourceError: the source cannot be opened now; it is tried again at the next search.
"""


def base_path(data_dir: Path) -> Path:
    """Return where the embedded base lies below the data folder."""
    return data_dir / "base"


def open_base(path: Path, settings: Settings, embedder: Embedder | None, clock: Clock) -> LocalBase:
    """Return the embedded base in a folder, which need not exist yet, to be searched and written as the settings say.

    Raises:
        ConfigError: weights that merge nothing, or an embedder without numpy.
    """
    from context_engine.adapters.sources.local import LocalBase, SearchOptions

    return LocalBase(path, now=clock.now, embedder=embedder, options=SearchOptions.of(settings))


def check_local(spec: SourceSpec) -> None:
    """Refuse what the embedded base would ignore.

    Raises:
        ConfigError: the source names a connection, dataset ids or settings.
    """
    for key in _NOT_LOCAL:
        if getattr(spec, key):
            raise ConfigError("adapter 'local' does not use this key: remove it", key=f"sources.{spec.id}.{key}")


def open_local(spec: SourceSpec, context: SourceContext) -> Source:
    """Return one source of the embedded base, which need not exist yet; all sources of an engine share one base.

    Raises:
        ConfigError: the source names a connection, dataset ids or settings.
    """
    from context_engine.adapters.sources.local import LocalSource

    check_local(spec)
    path = base_path(context.data_dir())
    base = context.shared(("local", path), lambda: open_base(path, context.settings, context.embedder(), context.clock))
    return LocalSource(base, spec.id, spec=spec)
