"""What an adapter is given to open a source, and how the embedded base is opened.

An adapter is a function `(spec, context) -> Source`, published by its package in the entry-point group
`context_engine.sources` under the name that a manifest's `adapter:` gives.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from context_engine.errors import ConfigError
from context_engine.models import SourceSpec
from context_engine.protocols import Clock, Source
from context_engine.settings.connections import Connection

__all__ = ["SourceContext", "SourceFactory", "base_path", "check_local", "open_local"]

_NOT_LOCAL: Final = ("connection", "dataset_ids", "settings")


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceContext:
    """What an adapter may use.

    Attributes:
        domain: the domain the source is opened for.
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


SourceFactory = Callable[[SourceSpec, SourceContext], Source]
"""Opens a source.

Raises:
    ConfigError: the specification cannot be used.
    SourceError: the source cannot be opened now; it is tried again at the next search.
"""


def base_path(data_dir: Path) -> Path:
    """Return where the embedded base lies below the data folder."""
    return data_dir / "base"


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
    from context_engine.sources.local import LocalBase, LocalSource

    check_local(spec)
    path = base_path(context.data_dir())
    base = context.shared(("local", path), lambda: LocalBase(path, now=context.clock.now))
    return LocalSource(base, spec.id, spec=spec)
