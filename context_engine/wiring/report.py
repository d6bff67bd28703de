"""What `config show`, `config check` and `config diff` say, as values."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from context_engine.engine import SystemClock
from context_engine.errors import ConfigError
from context_engine.models import Settings
from context_engine.registry import LoadedRegistry, read_registry
from context_engine.settings import Config, ConfigPaths, read_config
from context_engine.settings.paths import CONFIG_FILES
from context_engine.sources.factory import check_local
from context_engine.wiring.adapters import SOURCES, find_adapter
from context_engine.wiring.build import Setup
from context_engine.wiring.models import Models

__all__ = ["CheckReport", "Shown", "StageDifference", "changed", "check", "diff_stages", "show"]


class Shown(NamedTuple):
    """One setting: its value in force, where it came from, the built-in default and what it means; JSON values."""

    key: str
    value: Any
    origin: str
    default: Any
    description: str


class StageDifference(NamedTuple):
    """A key whose value differs between two stages; values as written, secrets masked; None: not set."""

    key: str
    left: Any
    right: Any


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckReport:
    """What a check found.

    Attributes:
        paths: what was checked.
        files: the files that were read, as they are called in messages.
        domains: the domains that can be searched.
        problems: what must be mended, the first of each file.
        warnings: what is set and changes nothing, and what is set unwisely.
    """

    paths: ConfigPaths
    files: tuple[str, ...]
    domains: tuple[str, ...]
    problems: tuple[ConfigError, ...]
    warnings: tuple[str, ...]

    @property
    def ok(self) -> bool:
        """Whether there is no problem."""
        return not self.problems


def show(setup: Setup, *, domain: str | None = None, persona: str | None = None) -> tuple[Shown, ...]:
    """Return every setting in force, for a domain and a persona if they are named.

    Raises:
        UnknownDomain, InvalidRequest: the domain or the persona is not known.
        ConfigError: the domain cannot be used.
    """
    spec = setup.registry.domain(domain) if domain else None
    effective = setup.resolver.base(spec, persona)
    defaults = Settings().model_dump(mode="json")
    return tuple(
        Shown(key, entry["value"], entry["origin"], defaults[key], Settings.model_fields[key].description or "")
        for key, entry in effective.to_dict().items()
    )


def changed(shown: Iterable[Shown]) -> tuple[Shown, ...]:
    """Return the settings whose value is not the default."""
    return tuple(one for one in shown if one.value != one.default)


def check(paths: ConfigPaths, *, env: Mapping[str, str], stage: str | None = None) -> CheckReport:
    """Read everything and return all that is wrong: the first problem of each file, and each missing variable.

    Args:
        paths: from `find_config`.
        env: the environment.
        stage: name of an overlay; `CONTEXT_ENGINE_STAGE` if None.
    """
    config, problems = read_config(paths, env=env, stage=stage)
    registry, in_manifests = read_registry(
        paths, env=env, stage=config.stage, connections=config.connections.names, doc_types=config.chunking
    )
    found = (*problems, *in_manifests, *registry.broken.values(), *_beyond_files(config, registry))
    missing = (problem for problem in config.connections.problems() if str(problem) not in {str(one) for one in found})
    return CheckReport(
        paths=paths,
        files=tuple(paths.label(path) for path in _files(paths)),
        domains=tuple(sorted(registry.domains)),
        problems=(*found, *missing),
        warnings=(*config.warnings, *_unused(config, registry), *_shared(registry)),
    )


def diff_stages(
    paths: ConfigPaths, left: str | None, right: str | None, *, env: Mapping[str, str]
) -> tuple[StageDifference, ...]:
    """Return what differs between two stages (None: no stage): keys of connections, and dataset ids.

    Raises:
        ConfigError: a stage that is not there, or a file that cannot be read.
    """
    sides = []
    for stage in (left, right):
        plain = {name: text for name, text in env.items() if stage or name != "CONTEXT_ENGINE_STAGE"}
        config, problems = read_config(paths, env=plain, stage=stage)
        for problem in problems:
            raise problem
        sides.append(dict(_staged(config, read_registry(paths, env=plain, connections=config.connections.names)[0])))
    keys = sorted(sides[0].keys() | sides[1].keys())
    return tuple(
        StageDifference(key, *(side[key].shown if key in side else None for side in sides))
        for key in keys
        if sides[0].get(key) != sides[1].get(key)
    )


class _Staged(NamedTuple):
    written: Any
    shown: Any


def _staged(config: Config, registry: LoadedRegistry) -> Iterator[tuple[str, _Staged]]:
    for name in config.connections.names:
        written, shown = config.connections.written(name), config.connections.shown(name)
        yield from ((f"connections.{name}.{key}", _Staged(written[key], shown[key])) for key in shown)
    ids = {source.id: list(source.dataset_ids) for domain in registry.domains.values() for source in domain.sources}
    for source, value in {**ids, **config.stage.dataset_ids}.items():
        if value:
            yield f"dataset_ids.{source}", _Staged(value, value)


def _beyond_files(config: Config, registry: LoadedRegistry) -> Iterator[ConfigError]:
    """Yield what only the installed packages can tell: adapters and rerankers that are not there."""
    for name, domain in registry.domains.items():
        for source in domain.sources:
            try:
                find_adapter(SOURCES, source.adapter, key=f"sources.{source.id}.adapter")
                if source.adapter == "local":
                    check_local(source)
                if source.adapter == "dify":
                    from context_engine.sources.dify import check_dify  # only here: it brings the HTTP client

                    check_dify(source)
            except ConfigError as error:
                yield ConfigError(error.problem, file=registry.files[name], key=error.key)
    models = Models(
        config.resolver().base, connection=config.connections.get, data_dir=Path, clock=SystemClock()
    )  # nothing is loaded or asked: it is opened to read its options
    for opened in (models.embedder, models.reranker):
        try:
            opened()
        except ConfigError as error:
            yield error


def _unused(config: Config, registry: LoadedRegistry) -> Iterator[str]:
    used = {source.connection for domain in registry.domains.values() for source in domain.sources}
    values = config.resolver().base().values
    used |= {*_named(values.embedder_options), *_named(values.reranker_options), *_named(values.query_refiner_options)}
    if not registry.broken:
        for name in config.connections.names:
            if name not in used:
                yield f"connection {name!r} is used by no source and no model"
    if not registry.names:
        yield "no domain is registered: write a manifest, or start with 'context-engine init DIR'"


def _named(options: Any) -> Iterator[str]:
    """Yield the connections that options name, those of a member's options too."""
    if isinstance(options, Mapping):
        if isinstance(options.get("connection"), str):
            yield options["connection"]
        options = tuple(options.values())
    if isinstance(options, list | tuple):
        for one in options:
            yield from _named(one)


def _shared(registry: LoadedRegistry) -> Iterator[str]:
    """Yield the sources of the embedded base that stand in several domains: one base holds them by their id."""
    names: dict[str, list[str]] = {}
    for name, domain in sorted(registry.domains.items()):
        for source in domain.sources:
            if source.adapter == "local":
                names.setdefault(source.id, []).append(name)
    for source_id, several in names.items():
        if len(several) > 1:
            yield f"source {source_id!r} stands in {' and '.join(several)}: they share its documents"


def _files(paths: ConfigPaths) -> Iterator[Path]:
    found = (paths.config_file(name) for name in CONFIG_FILES)
    yield from (path for path in found if path is not None)
    yield from paths.manifests()
