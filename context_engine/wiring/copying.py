"""Copies the documents of a domain from the store of one adapter to that of another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from context_engine.adapters.sources.adapter import SinkOptions
from context_engine.adapters.sources.stores.copying import Progress, SourceCopy, StoreCopier, planned
from context_engine.core.engine import SystemClock
from context_engine.core.models import NOTHING, DomainSpec, SourceSpec
from context_engine.core.protocols import Copyable, CopyableAdapters, CopySink, LearntAdapters
from context_engine.errors import ConfigError, InvalidRequest, nearest
from context_engine.wiring.adapters import load_source_adapter
from context_engine.wiring.build import SourceOpener
from context_engine.wiring.examine import opened_store
from context_engine.wiring.setup import Setup
from context_engine.wiring.sinks import open_sink


class CopyOrder(NamedTuple):
    """What to copy.

    Attributes:
        origin, target: the adapters.
        source_id: only this source; None: all of the domain.
        connection, settings: of the sources of the adapter that the manifest does not name.
        delete: delete documents that only the target has.
        dry_run: write nothing.
    """

    origin: str
    target: str
    source_id: str | None = None
    connection: str | None = None
    settings: Mapping[str, Any] = NOTHING
    delete: bool = False
    dry_run: bool = False


class DomainCopy(NamedTuple):
    """The result of copying the sources of a domain.

    Attributes:
        calibrations: how many were kept.
        adapters_left: the learnt adapters in force that stay behind.
        adapters_kept: the learnt adapters that the target has too.
        vectors_refused: whether the target can hold no vectors.
        manifest: by source, the keys that the manifest must have to search the target; those that it has are left out.
    """

    domain: str
    sources: Sequence[SourceCopy]
    calibrations: int
    adapters_left: Sequence[str]
    vectors_refused: bool
    manifest: Mapping[str, Mapping[str, Any]]
    adapters_kept: Sequence[str] = ()

    @property
    def same(self) -> bool:
        """Whether every document is the same in both stores."""
        return not any(source.differences for source in self.sources)

    def to_dict(self) -> Mapping[str, Any]:
        """Return all fields, ready for JSON; `same` is None in a dry run, which compares nothing."""
        compared = all(source.digest for source in self.sources)
        sources = [source.to_dict() for source in self.sources]
        return {**self._asdict(), "sources": sources, "same": self.same if compared else None}


class CopiedSource(NamedTuple):
    """A source as the manifest has it, or would have it, for each of both adapters."""

    origin: SourceSpec
    target: SourceSpec


def copied_sources(domain: DomainSpec, order: CopyOrder) -> list[CopiedSource]:
    """Return the sources of a domain that an order concerns: those whose manifest names one of its adapters.

    Raises:
        ConfigError: an adapter is not installed.
        InvalidRequest: there is none, a source cannot be of the other adapter, or both stores are the same.
    """
    pairs = []
    for spec in domain.sources:
        if spec.adapter == order.origin:
            pairs.append(CopiedSource(spec, _as_one_of(order.target, spec, order)))
        elif spec.adapter == order.target:
            pairs.append(CopiedSource(_as_one_of(order.origin, spec, order), spec))
    if not pairs:
        raise InvalidRequest(f"{domain.domain} has no source with 'adapter: {order.origin}' or '{order.target}'")
    if order.source_id is not None:
        ids = [pair.origin.id for pair in pairs]
        pairs = [pair for pair in pairs if pair.origin.id == order.source_id]
        if not pairs:
            raise InvalidRequest(f"source {order.source_id!r} is not one to copy.{nearest(order.source_id, ids)}")
    for specs in zip(*pairs, strict=True):
        if len({_store_of(spec) for spec in specs}) > 1:
            raise InvalidRequest(f"the sources of {domain.domain} are in several stores: copy one by one with --source")
    if _store_of(pairs[0].origin) == _store_of(pairs[0].target):
        raise InvalidRequest("--from and --to are the same store: name another --connection")
    return pairs


def _as_one_of(adapter: str, spec: SourceSpec, order: CopyOrder) -> SourceSpec:
    """Return a source as the manifest would have it for an adapter, with the order's connection and settings if the
    adapter takes them.

    Raises:
        ConfigError: the adapter is not installed.
        InvalidRequest: it takes the source neither with nor without them.
    """
    changes: dict[str, Any] = {"adapter": adapter, "connection": None, "settings": {}, "dataset_ids": ()}
    bare = spec.model_copy(update=changes)
    whole = bare.model_copy(update={"connection": order.connection, "settings": dict(order.settings)})
    check, problems = load_source_adapter(adapter).check, []
    for source in (whole, bare):
        try:
            if check is not None:
                check(source)
            return source
        except ConfigError as error:
            problems.append(error.problem)
    raise InvalidRequest(
        f"source {spec.id!r} cannot be one of adapter {adapter!r}: {problems[0]} (give --connection and --set where "
        "the manifest has none)"
    )


def _store_of(spec: SourceSpec) -> tuple[str, str | None, str]:
    return spec.adapter, spec.connection, repr(sorted(spec.settings.items()))


def copy_domain(
    setup: Setup, domain: DomainSpec, order: CopyOrder, *, data_dir: Path, progress: Progress
) -> DomainCopy:
    """Copy the sources of a domain with their vectors, calibrations and adapters, and compare every document.

    Calibrations and adapters are those of a whole domain, so they are left out where only one source is copied.

    Raises:
        ConfigError: an adapter cannot be read from or written to.
        InvalidRequest: see `copied_sources` and `StoreCopier.copy`.
        SourceError, StoreError: a store failed; the next copy continues.
    """
    pairs = copied_sources(domain, order)
    factories = {name: partial(load_source_adapter, name) for name in (order.origin, order.target)}

    def opened(spec: SourceSpec) -> AbstractContextManager[Copyable]:
        opener = SourceOpener(setup, factories, SystemClock(), data_dir, lambda: None)
        return opened_store(opener, domain, spec, Copyable)

    options = SinkOptions(dry_run=order.dry_run)
    ids, targets = [pair.origin.id for pair in pairs], [pair.target for pair in pairs]
    # An adapter that cannot be copied to is reported before anything is written.
    with opened(pairs[0].origin) as origin, opened(pairs[0].target) as target:
        with open_sink(setup, domain, targets, order.target, options, data_dir=data_dir, embedder=lambda: None) as sink:
            if order.dry_run:
                sources = [planned(origin, sink, source_id, delete=order.delete) for source_id in ids]
                return DomainCopy(domain.domain, sources, 0, (), False, {})
            if not isinstance(sink, CopySink):
                raise ConfigError(f"adapter {order.target!r} cannot be copied to")
            copier = StoreCopier(origin, lambda: opened(pairs[0].target), sink, progress)
            sources = [copier.copy(source_id, delete=order.delete) for source_id in ids]
            calibrations = () if order.source_id else origin.class_calibrations(domain.domain)
            sink.finish_copy(domain.domain, ids, calibrations)
        kept = [] if order.source_id else _kept_adapters(origin, target, domain.domain)
        left = [adapter_id for adapter_id in _in_force(origin, domain.domain) if adapter_id not in kept]
    manifest = {pair.target.id: _keys(pair.target) for pair in pairs if pair.target not in domain.sources}
    return DomainCopy(domain.domain, sources, len(calibrations), left, copier.vectors_refused, manifest, kept)


def _kept_adapters(origin: Copyable, target: Copyable, domain: str) -> list[str]:
    """Copy the learnt adapters of a domain, and return the ids of those that the target keeps."""
    if not isinstance(origin, CopyableAdapters) or not isinstance(target, CopyableAdapters):
        return []
    adapters = origin.copied_adapters(domain)
    return sorted(target.keep_copied(domain, adapters)) if adapters else []


def _in_force(store: Copyable, domain: str) -> list[str]:
    if not isinstance(store, LearntAdapters):
        return []
    return [adapter.adapter_id for adapter in store.adapters(domain) if adapter.in_force]


def _keys(spec: SourceSpec) -> Mapping[str, Any]:
    named = {"adapter": spec.adapter, "connection": spec.connection, "settings": dict(spec.settings)}
    return {name: value for name, value in named.items() if value}
