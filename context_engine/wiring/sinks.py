"""Where documents are written: the sink of some sources of a domain, opened by the adapter that they name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from context_engine.adapters.sources.adapter import SinkOptions
from context_engine.core.engine import SystemClock
from context_engine.core.models import DomainSpec, Registry, SourceSpec, canonical_json
from context_engine.core.protocols import Embedder, ScrubbingSink, Sink
from context_engine.errors import ConfigError, InvalidRequest, nearest
from context_engine.wiring.adapters import SOURCES, installed, load_source_adapter
from context_engine.wiring.build import SourceOpener
from context_engine.wiring.embedded_base import in_embedded_base, open_base
from context_engine.wiring.models import with_known_floor
from context_engine.wiring.setup import Setup

if TYPE_CHECKING:
    from context_engine.adapters.sources.local import LocalBase
    from context_engine.adapters.sources.stores.chunk_rows import Place
    from context_engine.wiring.models import Models


def open_sink(
    setup: Setup,
    domain: DomainSpec,
    specs: Sequence[SourceSpec],
    to: str,
    options: SinkOptions,
    *,
    data_dir: Path,
    embedder: Callable[[], Embedder | None],
) -> AbstractContextManager[Sink]:
    """Yield the sink of some sources; the end of the block without an error completes the run.

    Args:
        specs: sources of the domain, all of the adapter `to`.
        to: the name of an adapter.
        data_dir: the folder of the embedded base.
        embedder: returns the embedder for a sink that stores vectors.

    Raises:
        InvalidRequest: the sources cannot be written to, or cannot be repaired.
        ConfigError: the adapter is not installed, or a source cannot be used.
    """
    adapter = load_source_adapter(to)
    if adapter.open_sink is None:
        names = ", ".join(sink_names(installed(SOURCES)))
        raise InvalidRequest(f"adapter {to!r} only searches: its sources cannot be written to. Those of {names} can.")
    if options.repair and not adapter.repairs:
        names = " or ".join(f"--to {name}" for name in sink_names(installed(SOURCES), repairs=True))
        raise InvalidRequest(f"--repair is not for --to {to}: give {names} (the embedded base has 'kb verify')")
    if not options.dry_run:
        setup.claim(data_dir)
    opener = SourceOpener(setup, {}, SystemClock(), data_dir, embedder)
    return adapter.open_sink(specs, opener.context(domain), options)


def embedded_places(setup: Setup) -> Place:
    """Return where the documents of each source of the embedded base belong, by the rules of all domains."""
    from context_engine.adapters.sources.stores.chunk_rows import places

    domains = setup.registry.domains.values()
    specs = [spec for domain in domains for spec in domain.sources if in_embedded_base(spec)]
    return places(specs, setup.access.rules_of)


def configured_base(setup: Setup, path: Path, models: Models) -> LocalBase:
    """Return the embedded base in a folder with the options and the embedder of the settings.

    Args:
        models: the models to use, for a caller who reports their use afterwards.
    """
    settings = with_known_floor(setup.resolver.base().values)
    return open_base(path, settings, models.embedder(), SystemClock(), embedded_places(setup))


def sink_names(names: Sequence[str], *, repairs: bool = False) -> list[str]:
    """Return the names of the adapters with a sink.

    Args:
        names: the names of adapters; adapters that cannot be loaded are left out.
        repairs: only adapters that can repair written documents.
    """
    writable = []
    for name in names:
        try:
            adapter = load_source_adapter(name)
        except ConfigError:
            continue
        if adapter.open_sink is not None and (adapter.repairs or not repairs):
            writable.append(name)
    return writable


def target_sources(
    domain: DomainSpec, to: str, source_id: str | None, namespace: str | None = None
) -> Sequence[SourceSpec]:
    """Return the sources of a domain that documents are written to.

    Args:
        to: the name of an adapter.
        source_id: only this source; None: all of the adapter.
        namespace: only sources of this namespace; None: of all.

    Raises:
        InvalidRequest: the domain has no source of the adapter, or not the named one.
    """
    fitting = [source for source in domain.sources if source.adapter == to]
    if not fitting:
        others = sink_names(sorted({source.adapter for source in domain.sources}))
        hint = f"; --to {others[0]} writes to those it has" if others else ""
        raise InvalidRequest(f"domain {domain.domain!r} has no source with 'adapter: {to}' in its manifest{hint}")
    if namespace is not None:
        known = sorted({source.in_namespace for source in fitting})
        fitting = [source for source in fitting if source.in_namespace == namespace]
        if not fitting:
            where = f"of domain {domain.domain!r} that --to {to} writes to"
            raise InvalidRequest(f"no source {where} is in namespace {namespace!r}.{nearest(namespace, known)}")
    if source_id is None:
        return fitting
    named = [source for source in fitting if source.id == source_id]
    if not named:
        ids = [source.id for source in fitting]
        raise InvalidRequest(f"source {source_id!r} is not one that --to {to} writes to.{nearest(source_id, ids)}")
    return named


class SourceGroup(NamedTuple):
    """Sources of one domain in one store."""

    domain: DomainSpec
    specs: list[SourceSpec]


def groups_named(registry: Registry, names: Collection[str], domain: str | None) -> list[SourceGroup]:
    """Return the sources with one of some ids or namespaces, each source once, by store.

    Args:
        domain: only sources of this domain; None: of all.

    Raises:
        UnknownDomain: the domain is not registered.
        InvalidRequest: no source has one of the names, or the adapter of one cannot delete.
    """
    domains = [registry.domain(domain)] if domain is not None else list(registry.domains.values())
    known = sorted({name for spec in domains for name in spec.names})
    for name in names:
        if name not in known:
            raise InvalidRequest(f"there is no source or namespace {name!r}.{nearest(name, known)}")
    once = {source.id: (spec, source) for spec in reversed(domains) for source in spec.named(names)}
    groups: dict[Hashable, SourceGroup] = {}
    for spec, source in once.values():
        if load_source_adapter(source.adapter).open_sink is None:
            raise InvalidRequest(f"source {source.id!r}: adapter {source.adapter!r} only searches, and removes nothing")
        store = (spec.domain, source.adapter, source.connection, canonical_json(source.settings))
        groups.setdefault(store, SourceGroup(spec, [])).specs.append(source)
    return list(groups.values())


def remove_documents(specs: Sequence[SourceSpec], sink: Sink, *, dry_run: bool) -> tuple[dict[str, int], str]:
    """Remove all documents of some sources from their sink, with everything that they leave behind in the store.

    Returns:
        The number of documents of each source, and where copies stay (`ScrubbingSink.scrub`).
    """
    documents = {spec.id: list(sink.documents(spec.id)) for spec in specs}
    counts = {source_id: len(keys) for source_id, keys in documents.items()}
    if dry_run:
        return counts, ""
    for source_id, keys in documents.items():
        for key in keys:
            sink.delete(source_id, *key)
    sink.commit()
    return counts, sink.scrub() if isinstance(sink, ScrubbingSink) else ""
