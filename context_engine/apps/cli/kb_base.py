"""The embedded base that the `kb` commands work on."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.apps.cli.console import note, progress_console
from context_engine.apps.cli.context import ConfigLocation, open_context

if TYPE_CHECKING:
    from context_engine.adapters.sources.local import LocalBase


@contextmanager
def opened_base(location: ConfigLocation, *, embedder: bool = False) -> Iterator[LocalBase]:
    """Yield the base of the data folder; the demo's where there is neither a base nor a domain.

    Args:
        embedder: whether with the embedder that the settings name, and the places of all sources.

    Raises:
        StoreError: there is none.
        ConfigError: the embedder cannot be used.
    """
    from context_engine.adapters.sources.local.base import LocalBase
    from context_engine.adapters.sources.local.schema import missing

    path = _path(location)
    with _configured(path, location) if embedder else LocalBase(path) as base:
        if not base.exists():
            raise missing(base.path)
        yield base


def _configured(path: Path, location: ConfigLocation) -> LocalBase:
    """Return the base with the embedder that the settings name, and the places of all sources."""
    from context_engine.adapters.sources.factory import open_base
    from context_engine.core.engine import SystemClock
    from context_engine.wiring import embedded_places, load_setup

    setup = load_setup(config_dir=location.config_dir, stage=location.stage)
    settings, embedder = setup.resolver.base().values, setup.models(location.data_dir).embedder()
    return open_base(path, settings, embedder, SystemClock(), embedded_places(setup))


def _path(location: ConfigLocation) -> Path:
    import os

    from context_engine.adapters.sources.factory import base_path
    from context_engine.adapters.sources.local.base import LocalBase
    from context_engine.settings import find_config, find_data_dir

    env, cwd = os.environ, Path.cwd()
    paths = find_config(location.config_dir, env=env, cwd=cwd)
    own = base_path(find_data_dir(location.data_dir, env=env, cwd=cwd, paths=paths))
    return own if LocalBase(own).exists() else open_context(location, operator=True).base


@contextmanager
def busy(title: str) -> Iterator[None]:
    """Say what is being done, as long as it takes."""
    console = progress_console()
    if not console.is_terminal:
        note(title)
        yield
        return
    with console.status(title):
        yield
