"""From a configuration to an engine."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from context_engine.adapters.sources.factory import SourceContext, SourceFactory
from context_engine.core.engine import Engine, SystemClock
from context_engine.core.models import DomainSpec, EffectiveSettings, Notice, NoticeCode, SearchRequest, SourceSpec
from context_engine.core.protocols import Clock, Embedder, IdSource, QueryRefiner, Recorder, Reranker, Source
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import (
    Config,
    ConfigPaths,
    Setting,
    SettingsResolver,
    find_config,
    find_data_dir,
    load_config,
    read_config,
)
from context_engine.settings.layers import with_layer
from context_engine.settings.registry import LoadedRegistry, load_registry
from context_engine.wiring.adapters import SOURCES, find_adapter, load_adapter
from context_engine.wiring.hybrid import hybrid
from context_engine.wiring.models import Models

__all__ = ["RerankerChoice", "Setup", "build_engine", "load_setup", "source_opener"]

logger = logging.getLogger(__name__)

_NAMES_OF_OTHERS: Final = frozenset({"connections.yaml", "personas.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A loaded configuration, before any source is opened.

    Attributes:
        config: settings, connections, stage.
        registry: the domains.
        resolver: the settings of a search.
        env, cwd: what it was loaded with.
    """

    config: Config
    registry: LoadedRegistry
    resolver: SettingsResolver
    env: Mapping[str, str] = field(repr=False)
    cwd: Path

    def data_dir(self, data_dir: str | Path | None = None) -> Path:
        """Return the folder of the embedded base; see `find_data_dir`."""
        return find_data_dir(data_dir, env=self.env, cwd=self.cwd, paths=self.config.paths)

    def models(self, data_dir: str | Path | None = None, clock: Clock | None = None) -> Models:
        """Return the embedder and the reranker that the settings name, to be opened when they are asked for."""
        return Models(
            self.resolver.base,
            connection=self.config.connections.get,
            data_dir=partial(self.data_dir, data_dir),
            clock=clock or SystemClock(),
        )

    def with_pipeline(self, pipeline: Mapping[str, Any]) -> Setup:
        """Return the same with a pipeline config in force.

        Raises:
            ConfigError: a key that is not known, or a value out of range.
        """
        return replace(self, resolver=self.resolver.with_pipeline(pipeline))


def load_setup(
    *,
    config_dir: str | Path | None = None,
    manifest_dir: Path | None = None,
    stage: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
) -> Setup:
    """Load configuration and manifests from the first place that has any.

    Args:
        config_dir: see `find_config`.
        manifest_dir: take the manifests from here instead. A `connections.yaml` or `personas.json` of the current
            directory that cannot be used may be another program's then: it is passed over with a warning.
        stage: name of an overlay; `CONTEXT_ENGINE_STAGE` if None.
        env, cwd: the process's own if None.

    Raises:
        ConfigError: the first thing in them that cannot be used.
    """
    env, cwd = dict(os.environ if env is None else env), cwd or Path.cwd()
    paths: ConfigPaths = find_config(config_dir, env=env, cwd=cwd)
    if manifest_dir is None:
        config = load_config(paths, env=env, stage=stage)
    else:
        paths = replace(paths, manifest_dir=manifest_dir)
        config = _beside_others(paths, env, stage)
    for notice in config.notices:
        logger.warning("%s", notice.message)
    registry = load_registry(
        paths, env=env, stage=config.stage, connections=config.connections.names, doc_types=config.chunking
    )
    return Setup(config=config, registry=registry, resolver=config.resolver(registry.files), env=env, cwd=cwd)


def _beside_others(paths: ConfigPaths, env: Mapping[str, str], stage: str | None) -> Config:
    config, problems = read_config(paths, env=env, stage=stage)
    passed_over = []
    for problem in problems:
        if paths.origin != "current directory" or Path(problem.file or "").name not in _NAMES_OF_OTHERS:
            raise problem
        said = f"{problem} (the file may be another program's: it is passed over)"
        passed_over.append(Notice(NoticeCode.FILE_PASSED_OVER, problem.file or "", said, {"problem": str(problem)}))
    return replace(config, notices=(*config.notices, *passed_over))


def build_engine(
    setup: Setup | None = None,
    *,
    config_dir: str | Path | None = None,
    data_dir: str | Path | None = None,
    stage: str | None = None,
    env: Mapping[str, str] | None = None,
    cwd: Path | None = None,
    pipeline: Mapping[str, Any] | None = None,
    reranker: Reranker | None = None,
    refiner: QueryRefiner | None = None,
    models: Models | None = None,
    clock: Clock | None = None,
    ids: IdSource | None = None,
    recorder: Recorder | None = None,
) -> Engine:
    """Return an engine over the configured domains; sources are opened on their first use.

    Args:
        setup: a configuration that is loaded already; else it is loaded as `load_setup` does.
        config_dir, stage, env, cwd: see `load_setup`.
        data_dir: the folder of the embedded base; see `find_data_dir`.
        pipeline: settings above persona, domain, environment and files.
        reranker, refiner: used in place of those the settings name.
        models: those to open, for who asks them afterwards what they did; of the same settings.
        clock, ids, recorder: see `Engine`.

    Raises:
        ConfigError: a configuration that cannot be used, or an adapter or reranker that is not installed.
    """
    loaded = setup or load_setup(config_dir=config_dir, stage=stage, env=env, cwd=cwd)
    loaded = loaded.with_pipeline(pipeline) if pipeline else loaded
    factories = _factories(loaded.registry)
    clock = clock or SystemClock()
    models = models or loaded.models(data_dir, clock)
    choice = RerankerChoice.of(loaded.resolver, reranker, models=models)
    return Engine(
        loaded.registry,
        _Opener(loaded, factories, clock, data_dir, models.embedder).open,
        resolve=choice.resolve,
        reranker=choice.reranker,
        refiner=refiner or models.refiner(),
        clock=clock,
        ids=ids,
        recorder=recorder,
    )


def source_opener(
    setup: Setup, *, data_dir: str | Path | None = None, clock: Clock | None = None
) -> Callable[[DomainSpec, SourceSpec], Source]:
    """Return what opens the sources of a configuration, for those who look at a source itself; each is to be closed.

    Raises:
        ConfigError: an adapter that is not installed; what is returned raises it for a source that cannot be used.
    """
    clock = clock or SystemClock()
    return _Opener(setup, _factories(setup.registry), clock, data_dir, setup.models(data_dir, clock).embedder).open


def _factories(registry: LoadedRegistry) -> dict[str, Callable[[], SourceFactory]]:
    """Return what loads each adapter that a domain names; that all are installed is known before the first search."""
    found: dict[str, Callable[[], SourceFactory]] = {}
    for name, domain in registry.domains.items():
        for source in domain.sources:
            key = f"sources.{source.id}.adapter"
            point = find_adapter(SOURCES, source.adapter, file=registry.files.get(name), key=key)
            found[source.adapter] = lambda point=point: load_adapter(point)  # type: ignore[misc]
    return found


@dataclass(slots=True)
class _Opener:
    """Opens sources and keeps what they share."""

    setup: Setup
    factories: Mapping[str, Callable[[], SourceFactory]]
    clock: Clock
    given_data_dir: str | Path | None
    embedder: Callable[[], Embedder | None]
    kept: dict[Hashable, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def open(self, domain: DomainSpec, spec: SourceSpec) -> Source:
        context = SourceContext(
            domain=domain.domain,
            data_dir=partial(self.setup.data_dir, self.given_data_dir),
            connection=self.setup.config.connections.get,
            clock=self.clock,
            shared=self.shared,
            timezone=domain.timezone,
            settings=self.setup.resolver.base().values,
            embedder=self.embedder,
        )
        file = self.setup.registry.files.get(domain.domain)
        try:
            return self.factories[spec.adapter]()(spec, context)
        except ConfigError as error:
            if error.file is not None or file is None:
                raise
            raise ConfigError(error.problem, file=file, key=error.key or f"sources.{spec.id}") from error

    def shared(self, key: Hashable, make: Callable[[], Any]) -> Any:
        with self.lock:
            if key not in self.kept:
                self.kept[key] = make()
            return self.kept[key]


@dataclass(frozen=True, slots=True)
class RerankerChoice:
    """The one reranker of an engine, and the settings of a search with a check that they ask for no other."""

    resolver: SettingsResolver
    name: str
    options: Mapping[str, Any]
    reranker: Reranker | None
    given: bool

    @classmethod
    def of(
        cls, resolver: SettingsResolver, given: Reranker | None = None, *, models: Models | None = None
    ) -> RerankerChoice:
        """Return the reranker that is given, else the one the settings name, opened by `models`.

        Raises:
            ConfigError: it is not installed, or its options cannot be used.
        """
        if given is not None:
            return cls(resolver, given.name, {}, given, True)
        reranker = models.reranker() if models else None
        base = resolver.base().values
        return cls(resolver, base.reranker if reranker else "noop", base.reranker_options, reranker, False)

    def resolve(self, domain: DomainSpec | None, request: SearchRequest) -> EffectiveSettings:
        """Return the settings of a search.

        Raises:
            InvalidRequest: an option that cannot be used, or another reranker than the engine's.
            ConfigError: the same of a file.
        """
        asked = self.resolver.resolve(domain, request)
        settings = hybrid(self.resolver.base(), asked, request.query, has_reranker=self.reranker is not None)
        wanted, origin = settings.values.reranker, settings.origins.get("reranker", "default")
        if self.given:
            return with_layer(settings, {"reranker": Setting(self.name, "code")})
        if not settings.values.reranking_enabled:
            return settings
        if wanted == self.name:
            return self._with_options(settings)
        if wanted == "noop":
            return with_layer(settings, {"reranking_enabled": Setting(False, origin)})
        problem = (
            f"this engine runs with reranker {self.name!r}, not {wanted!r}: name it in rag-pipeline.json, in "
            "CONTEXT_ENGINE_RERANKER or in the pipeline config, and build a new engine"
        )
        raise InvalidRequest(problem) if origin == "call" else ConfigError(problem, file=origin, key="reranker")

    def _with_options(self, settings: EffectiveSettings) -> EffectiveSettings:
        """Return the settings, if they ask for the reranker as it was opened."""
        origin = settings.origins.get("reranker_options", "default")
        if settings.values.reranker_options == self.options:
            return settings
        problem = "this engine's reranker was opened with other options: name them in rag-pipeline.json or in the "
        problem += "pipeline config, and build a new engine"
        raise InvalidRequest(problem) if origin == "call" else ConfigError(problem, file=origin, key="reranker_options")
