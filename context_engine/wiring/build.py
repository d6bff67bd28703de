"""From a configuration to an engine."""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from context_engine.adapters.sources.adapter import SourceContext, SourceFactory
from context_engine.core.engine import Engine, SystemClock
from context_engine.core.models import (
    DomainSpec,
    Notice,
    NoticeCode,
    Principal,
    SourceSpec,
)
from context_engine.core.policy.access import visible
from context_engine.core.protocols import (
    AccessPolicy,
    Clock,
    Embedder,
    IdSource,
    QueryRefiner,
    Recorder,
    Reranker,
    Source,
)
from context_engine.errors import ConfigError
from context_engine.settings import (
    Config,
    ConfigPaths,
    SettingsResolver,
    find_config,
    find_data_dir,
    load_config,
    read_config,
)
from context_engine.settings.data_dir import claim_data_dir, orphaned_data_dirs
from context_engine.settings.registry import LoadedRegistry, load_registry
from context_engine.wiring.access import configured_policy
from context_engine.wiring.adapters import SOURCES, find_adapter, load_adapter, with_installed_adapters
from context_engine.wiring.audit import open_recorder
from context_engine.wiring.models import Models
from context_engine.wiring.privacy import ConfiguredMask, Masking, mask_log_records, masking, masking_notices
from context_engine.wiring.reranker_choice import RerankerChoice

__all__ = ["RerankerChoice", "Setup", "SourceOpener", "build_engine", "load_setup", "source_opener", "usable_setup"]

logger = logging.getLogger(__name__)

_NAMES_OF_OTHERS: Final = frozenset({"connections.yaml", "personas.json"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Setup:
    """A loaded configuration, before any source is opened.

    Attributes:
        config: settings, connections, stage.
        registry: the domains.
        resolver: the settings of a search.
        access: decides who may search what.
        env, cwd: what it was loaded with.
    """

    config: Config
    registry: LoadedRegistry
    resolver: SettingsResolver
    access: AccessPolicy
    env: Mapping[str, str] = field(repr=False)
    cwd: Path

    def visible(self, principal: Principal) -> LoadedRegistry:
        """Return the registry as a principal may know it; see `context_engine.core.policy.access`."""
        return visible(self.registry, self.access, principal)

    def data_dir(self, data_dir: str | Path | None = None) -> Path:
        """Return the folder of the embedded base; see `find_data_dir`."""
        return find_data_dir(data_dir, env=self.env, cwd=self.cwd, paths=self.config.paths)

    def claim(self, folder: Path) -> None:
        """Note that a folder of data is this configuration's; see `claim_data_dir`."""
        claim_data_dir(folder, self.config.paths, self.registry.names, env=self.env)

    def orphaned(self, folder: Path) -> tuple[Notice, ...]:
        """Return a notice for every folder of data that was left behind, where there is none in `folder`."""
        found = orphaned_data_dirs(folder, self.config.paths, self.registry.names, env=self.env)
        return tuple(one.notice() for one in found)

    def models(self, data_dir: str | Path | None = None, clock: Clock | None = None) -> Models:
        """Return the embedder and the reranker that the settings name, to be opened when they are asked for."""
        return Models(
            self.resolver.base,
            connection=self.config.connections.get,
            data_dir=partial(self.data_dir, data_dir),
            clock=clock or SystemClock(),
        )

    def mask(self) -> ConfiguredMask:
        """Return what masks personal data as the settings say, to be opened when it is first used."""
        return ConfiguredMask(self.resolver.base, env=self.env, cwd=self.cwd)

    def masking(self) -> Masking:
        """Return what is masked where."""
        return masking(self.resolver, self.registry, self.env)

    def with_pipeline(self, pipeline: Mapping[str, Any]) -> Setup:
        """Return the same with a pipeline config in force.

        Raises:
            ConfigError: a key that is not known, or a value out of range.
        """
        return _with_masked_logs(replace(self, resolver=self.resolver.with_pipeline(pipeline)))


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
        ConfigError: the configuration cannot be used; what is wrong with a manifest is raised when its domain is
            searched.
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
    return usable_setup(config, env, cwd)


def usable_setup(config: Config, env: Mapping[str, str], cwd: Path) -> Setup:
    """Return a configuration with its domains; one whose manifest or adapter cannot be used is set aside in them.

    Raises:
        ConfigError: the stage names a source that there is not, or log records cannot be masked as they should be.
    """
    paths = config.paths
    registry = load_registry(
        paths, env=env, stage=config.stage, connections=config.connections.names, doc_types=config.chunking
    )
    access = configured_policy(config, registry)
    registry = with_installed_adapters(registry)
    for notice in registry.notices:
        logger.warning("%s", notice.message)
    resolver = config.resolver(registry.files)
    setup = Setup(config=config, registry=registry, resolver=resolver, access=access, env=env, cwd=cwd)
    unwise = masking_notices(setup.masking())
    for notice in unwise:
        logger.warning("%s", notice.message)
    return _with_masked_logs(replace(setup, config=replace(config, notices=(*config.notices, *unwise))))


def _with_masked_logs(setup: Setup) -> Setup:
    mask_log_records(setup.mask(), setup.resolver.base())
    return setup


def _beside_others(paths: ConfigPaths, env: Mapping[str, str], stage: str | None) -> Config:
    config, problems = read_config(paths, env=env, stage=stage)
    passed_over = []
    for problem in {one.file: one for one in reversed(problems)}.values():
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
    recorded: bool = True,
    access: AccessPolicy | None = None,
) -> Engine:
    """Return an engine over the configured domains; sources are opened on their first use.

    Args:
        setup: a configuration that is loaded already; else it is loaded as `load_setup` does.
        config_dir, stage, env, cwd: see `load_setup`.
        data_dir: the folder of the embedded base; see `find_data_dir`.
        pipeline: settings above persona, domain, environment and files.
        reranker, refiner: used in place of those the settings name.
        models: those to open, for who asks them afterwards what they did; of the same settings.
        clock, ids: see `Engine`.
        recorder: used in place of the one that the settings say.
        recorded: False: nothing is, whatever they say; for trials that answer nobody.
        access: decides in place of the configuration's own policy.

    Raises:
        ConfigError: a configuration that cannot be used, or a reranker or an extra that is not installed.
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
        SourceOpener(loaded, factories, clock, data_dir, models.embedder).open,
        resolve=choice.resolve,
        reranker=choice.reranker,
        rerankers=choice.named,
        refiner=refiner or models.refiner(),
        clock=clock,
        ids=ids,
        recorder=recorder if recorded else None,
        access=loaded.access,
        mask=loaded.mask(),
    )


def source_opener(
    setup: Setup,
    *,
    data_dir: str | Path | None = None,
    clock: Clock | None = None,
    embedder: Callable[[], Embedder | None] | None = None,
) -> SourceOpener:
    """Return what opens the sources of a configuration one by one; each is to be closed.

    Args:
        data_dir, clock: see `build_engine`.
        embedder: returns the embedder of the sources; None: the one that the settings name.
    """
    clock = clock or SystemClock()
    embedder = embedder or setup.models(data_dir, clock).embedder
    return SourceOpener(setup, _factories(setup.registry.domains.values()), clock, data_dir, embedder)


def _factories(domains: Iterable[DomainSpec]) -> dict[str, Callable[[], SourceFactory]]:
    """Return what loads each adapter that the domains name."""
    names = {source.adapter for domain in domains for source in domain.sources}
    return {name: partial(load_adapter, find_adapter(SOURCES, name)) for name in sorted(names)}


@dataclass(slots=True)
class SourceOpener:
    """Opens sources and keeps what they share."""

    setup: Setup
    factories: Mapping[str, Callable[[], SourceFactory]]
    clock: Clock
    data_dir: str | Path | None
    embedder: Callable[[], Embedder | None]
    kept: dict[Hashable, Any] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def open(self, domain: DomainSpec, spec: SourceSpec) -> Source:
        """Open a source.

        Raises:
            ConfigError: the source cannot be used.
            SourceError: it cannot be opened now.
        """
        file = self.setup.registry.files.get(domain.domain)
        try:
            return self.factories[spec.adapter]()(spec, self.context(domain))
        except ConfigError as error:
            if error.file is not None or file is None:
                raise
            raise ConfigError(error.problem, file=file, key=error.key or f"sources.{spec.id}") from error

    def context(self, domain: DomainSpec) -> SourceContext:
        """Return what the adapters of a domain may use."""
        return SourceContext(
            domain=domain.domain,
            data_dir=self._data_folder,
            connection=self.setup.config.connections.get,
            clock=self.clock,
            shared=self.shared,
            timezone=domain.timezone,
            settings=self.setup.resolver.base().values,
            embedder=self.embedder,
            rules_of=self.setup.access.rules_of,
        )

    def _data_folder(self) -> Path:
        folder = self.setup.data_dir(self.data_dir)
        for notice in self.shared(("orphaned", folder), lambda: self.setup.orphaned(folder)):
            logger.warning("%s", notice.message)
        return folder

    def shared(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """Return what `make` returned for a key the first time."""
        with self.lock:
            if key not in self.kept:
                self.kept[key] = make()
            return self.kept[key]
