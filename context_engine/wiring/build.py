"""Builds an engine from a configuration, with its cache of answers: in this process, or also in Redis."""

from __future__ import annotations

import hashlib
import json
import logging
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from context_engine import __version__
from context_engine.adapters.result_caches import ErasableCache, MemoryCache, TieredCache
from context_engine.adapters.sources.adapter import SourceContext, SourceFactory
from context_engine.core.concurrency.awaiting import awaited
from context_engine.core.engine import Engine, SystemClock
from context_engine.core.models import DomainSpec, SourceSpec
from context_engine.core.protocols import (
    AccessPolicy,
    Clock,
    Embedder,
    IdSource,
    QueryRefiner,
    Recorder,
    ResultCache,
    Source,
)
from context_engine.core.tracing import Tracer
from context_engine.errors import ConfigError, MissingExtra
from context_engine.settings.environment_secrets import read_shared_cache
from context_engine.wiring.adapters import SOURCES, find_adapter, load_adapter
from context_engine.wiring.audit import audit_mode, open_ledger, open_recorder
from context_engine.wiring.models import Models, RerankerChoice, with_known_floor
from context_engine.wiring.setup import Setup, load_setup

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

    from context_engine.adapters.result_caches.redis import RedisCache
    from context_engine.settings.connections import Connections
    from context_engine.wiring.setup import Setup


logger = logging.getLogger(__name__)
NO_FOLDERS: Final[Mapping[str, Path]] = MappingProxyType({})
_MEGABYTE: Final = 2**20


def build_engine(
    setup: Setup | None = None,
    *,
    config_dir: str | Path | None = None,
    data_dir: str | Path | None = None,
    stage: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pipeline: Mapping[str, Any] | None = None,
    reranker: Any = None,
    refiner: QueryRefiner | None = None,
    models: Models | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    recorder: Recorder | None = None,
    recorded: bool = True,
    access: AccessPolicy | None = None,
    tracer: Tracer | None = None,
    folders: Mapping[str, Path] = NO_FOLDERS,
) -> Engine:
    """Return an engine over the configured domains; sources are opened on their first use.

    Args:
        setup: a loaded configuration; None: load it like `load_setup`.
        config_dir, stage, env, cwd: see `load_setup`.
        data_dir: the folder of the embedded base; see `find_data_dir`.
        pipeline: settings above persona, domain, environment and files.
        reranker, refiner: used instead of those the settings name; for the forms of a reranker see `reranker_of`.
        models: already opened models of the same settings, for a caller who reports their use afterwards.
        clock, ids: see `Engine`.
        recorded: False records nothing, shows nothing in a trace and keeps nothing in a cache, for trials whose results
            reach nobody.
        tracer: used instead of that of the settings.
        folders: data folders of sources that do not use the common one, by source id.

    Raises:
        ConfigError: an unusable configuration, or a reranker or extra that is not installed.
    """
    loaded = setup or load_setup(config_dir=config_dir, stage=stage, env=env, cwd=cwd)
    loaded = loaded.with_pipeline(pipeline) if pipeline else loaded
    loaded = loaded if access is None else replace(loaded, access=access)
    factories = _factories(loaded.registry.domains.values())
    clock = clock or SystemClock()
    models = models or loaded.models(data_dir, clock)
    choice = RerankerChoice.of(loaded.resolver, reranker, models=models)
    if recorder is None and recorded:
        recorder = open_recorder(loaded, data_dir, clock=clock)
    return Engine(
        loaded.registry,
        SourceOpener(loaded, factories, clock, data_dir, models.embedder, folders).open,
        resolve=choice.resolve,
        reranker=choice.reranker,
        rerankers=choice.named,
        refiner=refiner or models.refiner(),
        clock=clock,
        ids=ids,
        recorder=recorder if recorded else None,
        access=loaded.access,
        mask=loaded.mask(),
        tracer=(tracer or open_tracer(loaded)) if recorded else None,
        cache=open_result_cache(loaded, clock, data_dir) if recorded else None,
    )


def source_opener(
    setup: Setup,
    *,
    data_dir: str | Path | None = None,
    clock: Clock | None = None,
    embedder: Callable[[], Embedder | None] | None = None,
) -> SourceOpener:
    """Return an opener of a configuration's sources; the caller closes each source.

    Args:
        data_dir, clock: see `build_engine`.
        embedder: returns the embedder of the sources; None: the configured one.
    """
    clock = clock or SystemClock()
    embedder = embedder or setup.models(data_dir, clock).embedder
    return SourceOpener(setup, _factories(setup.registry.domains.values()), clock, data_dir, embedder)


def _factories(domains: Iterable[DomainSpec]) -> dict[str, Callable[[], SourceFactory]]:
    """Return a loader for each adapter that the domains name."""
    names = {source.adapter for domain in domains for source in domain.sources}
    return {name: partial(load_adapter, find_adapter(SOURCES, name)) for name in sorted(names)}


@dataclass(slots=True)
class SourceOpener:
    """Opens sources and keeps the objects that they share."""

    setup: Setup
    factories: Mapping[str, Callable[[], SourceFactory]]
    clock: Clock
    data_dir: str | Path | None
    embedder: Callable[[], Embedder | None]
    folders: Mapping[str, Path] = field(default_factory=dict)
    kept: dict[Hashable, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def open(self, domain: DomainSpec, spec: SourceSpec) -> Source:
        """Open a source.

        Raises:
            ConfigError: an unusable source.
            SourceError: it cannot be opened now.
        """
        file = self.setup.registry.files.get(domain.domain)
        try:
            own = self.folders.get(spec.id)
            source: Source = awaited(self.factories[spec.adapter]()(spec, self.context(domain, own)))
            return source
        except ConfigError as error:
            if error.file is not None or file is None:
                raise
            raise ConfigError(error.problem, file=file, key=error.key or f"sources.{spec.id}") from error

    def context(self, domain: DomainSpec, folder: Path | None = None) -> SourceContext:
        """Return the services that the adapters of a domain may use.

        Args:
            folder: the data folder; None: the common one.
        """
        return SourceContext(
            domain=domain.domain,
            data_dir=self._data_folder if folder is None else lambda: folder,
            connection=self.setup.config.connections.get,
            clock=self.clock,
            shared=self.shared,
            timezone=domain.timezone,
            settings=with_known_floor(self.setup.resolver.base().values),
            embedder=self.embedder,
            rules_of=self.setup.access.rules_of,
        )

    def _data_folder(self) -> Path:
        folder = self.setup.data_dir(self.data_dir)
        for notice in self.shared(("orphaned", folder), lambda: self.setup.orphaned(folder)):
            logger.warning("%s", notice.message)
        return folder

    def shared(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return the object of a key, which `make` creates on first use."""
        with self.lock:
            if key not in self.kept:
                self.kept[key] = make()
            return self.kept[key]


def open_tracer(setup: Setup) -> Tracer | None:
    """Return the tracer that the settings ask for; None if they ask for none.

    Raises:
        MissingExtra: the extra `otel` is not installed.
    """
    settings = setup.resolver.base().values
    if not settings.tracing:
        return None
    try:
        from context_engine.adapters.telemetry import OpenTelemetryTracer
    except ImportError as error:
        raise MissingExtra("tracing", "otel") from error
    masks = setup.masking().on
    show = None if not settings.trace_content else setup.mask() if masks else str
    return OpenTelemetryTracer(_provider(), show)


@lru_cache(1)
def _provider() -> TracerProvider:
    from context_engine.adapters.telemetry import exporting_provider

    return exporting_provider()


def open_result_cache(setup: Setup, clock: Clock, data_dir: str | Path | None = None) -> ResultCache:
    """Return the cache of answers; the settings of each search say whether it is used.

    Where searches are recorded, an erasure in the ledger makes everything kept before it unusable.

    Args:
        data_dir: the data folder, which holds the ledger by default.

    Raises:
        ConfigError: the address or the key of a shared cache cannot be used.
        MissingExtra: the extra `redis` is not installed.
    """
    memory = MemoryCache(setup.resolver.base().values.cache_memory_mb * _MEGABYTE)
    shared = open_shared_cache(setup, clock)
    store: ResultCache = memory if shared is None else TieredCache(memory, shared)
    if audit_mode(setup) == "off":
        return store
    from context_engine.audit.ledger.erasure_mark import ErasureMark

    erasures = ErasureMark(lambda: open_ledger(setup, data_dir, create=False), clock)
    return ErasableCache(store, erasures.read, forget=memory.forget, close=erasures.close)


def open_shared_cache(setup: Setup, clock: Clock) -> RedisCache | None:
    """Return the cache in Redis; None if no address is set.

    Raises:
        ConfigError, MissingExtra: as in `open_result_cache`.
    """
    shared = read_shared_cache(setup.env, setup.cwd)
    if shared is None:
        return None
    from context_engine.adapters.result_caches.redis import RedisCache, connected

    return RedisCache(connected(shared.url), shared.secret, clock, namespace=_namespace(setup.config.connections))


def _namespace(connections: Connections) -> str:
    """Return a text that is equal for processes of one release that reach the same servers under the same names."""
    reached = [__version__, *(_address(connections, name) for name in connections.names)]
    return hashlib.sha256(json.dumps(reached).encode()).hexdigest()


def _address(connections: Connections, name: str) -> tuple[str, str]:
    try:
        return name, connections.get(name).base_url
    except ConfigError:  # reported where the connection is used
        return name, ""
