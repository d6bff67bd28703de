"""The chunks of a source, where its adapter can list them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from context_engine.core.models import Chunk, DomainSpec, SourceSpec
from context_engine.core.protocols import Listable
from context_engine.errors import ConfigError, SourceError
from context_engine.wiring.build import Setup, source_opener


@contextmanager
def listed_chunks(
    setup: Setup, data_dir: Path, domain: DomainSpec, spec: SourceSpec
) -> Iterator[Iterator[Chunk] | None]:
    """Yield the chunks of a source as they are read; None where it cannot be opened, or cannot list them.

    No model is opened for it.

    Raises:
        SourceError, StoreError: they can be listed, but not now; raised as they are read.
    """
    opener = source_opener(setup, data_dir=data_dir, embedder=lambda: None)
    try:
        source = opener.open(domain, spec)
    except (ConfigError, SourceError):  # a search says what is wrong with it
        yield None
        return
    try:
        yield source.list_chunks() if isinstance(source, Listable) else None
    finally:
        source.close()
