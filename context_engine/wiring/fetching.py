"""An engine that only fetches: what a configuration's sources hold now, without a model and without a record."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from context_engine.core.engine import Engine
from context_engine.wiring.build import Setup, source_opener


@contextmanager
def fetching_engine(setup: Setup, data_dir: str | Path | None = None) -> Iterator[Engine]:
    """Yield an engine to fetch chunks with, under the access rules of a configuration; closed at the end.

    Args:
        data_dir: the folder of the embedded base; see `find_data_dir`.
    """
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    with Engine(setup.registry, opener.open, access=setup.access) as engine:
        yield engine
