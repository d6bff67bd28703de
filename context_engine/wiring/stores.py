"""Opens the store behind a source for what it offers beyond search."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TypeVar

from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.core.protocols import CAPABILITIES, Source
from context_engine.errors import ConfigError
from context_engine.wiring.build import SourceOpener

C = TypeVar("C")


def offered(source: Source, capability: type[C]) -> C | None:
    """Return what offers a capability: the source or the object behind its `store`; None if neither does.

    Args:
        capability: one of `CAPABILITIES`.
    """
    for candidate in (source, getattr(source, "store", None)):
        if isinstance(candidate, capability):
            return candidate
    return None


@contextmanager
def opened_store(opener: SourceOpener, domain: DomainSpec, spec: SourceSpec, capability: type[C]) -> Iterator[C]:
    """Open a source and yield what offers the capability (`offered`); close the source at the end.

    Raises:
        ConfigError: the source cannot be opened, or its adapter does not offer the capability.
        SourceError: it cannot be opened now.
    """
    source = opener.open(domain, spec)
    try:
        store = offered(source, capability)
        if store is None:
            name = CAPABILITIES[capability]
            raise ConfigError(f"adapter {spec.adapter!r} does not offer {name}", key=f"sources.{spec.id}.adapter")
        yield store
    finally:
        source.close()
