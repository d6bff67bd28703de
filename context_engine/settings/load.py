"""Reads the whole configuration folder once into frozen values, with the overlay of a stage."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import Any, Final, TypeVar

from context_engine.core.chunking.strategy import DEFAULT_STRATEGIES, ChunkingStrategy, read_strategies
from context_engine.core.models import IngestSettings, Notice
from context_engine.errors import ConfigError, nearest
from context_engine.settings.access_file import ACCESS_FILE, read_access
from context_engine.settings.connections import Connections, Fields, read_connections, read_fields, unusable
from context_engine.settings.files import Interpolator, plain, read_json, read_yaml
from context_engine.settings.layers import (
    Layer,
    config_layer,
    environment_layer,
    environment_notices,
    ingest_layer,
    seed_layer,
)
from context_engine.settings.messages import unknown_key
from context_engine.settings.paths import ConfigPaths, misnamed_notices
from context_engine.settings.principals import NO_PRINCIPALS, Principals
from context_engine.settings.resolver import BUILT_IN, Persona, SettingsResolver, built_in_personas, read_personas

STAGE_VARIABLE: Final = "CONTEXT_ENGINE_STAGE"


@dataclass(frozen=True, slots=True, kw_only=True)
class StageOverlay:
    """The overrides of a stage.

    Attributes:
        name: None for no stage.
        file: the overlay's name in messages.
        connections: keys that override those of the connections.
        dataset_ids: source id -> dataset ids as written; a `${...}` is filled in with the domain that uses it.
        filler: fills in the variables.
    """

    name: str | None = None
    file: str = ""
    connections: Fields = field(default_factory=dict, repr=False)
    dataset_ids: Mapping[str, Any] = field(default_factory=dict)
    filler: Interpolator | None = None


NO_OVERLAY: Final = StageOverlay()


def load_overlay(paths: ConfigPaths, *, env: Mapping[str, str], name: str | None = None) -> StageOverlay:
    """Return the overlay of `name` or of `CONTEXT_ENGINE_STAGE`; without either an empty one.

    Raises:
        ConfigError: an unknown stage, or an overlay that overrides anything else.
    """
    wanted = name or env.get(STAGE_VARIABLE)
    if not wanted:
        return NO_OVERLAY
    stages = paths.stages()
    if wanted not in stages:
        hint = nearest(wanted, stages) or " There is none: write manifests/stages/<name>.yaml."
        raise ConfigError(f"unknown stage {wanted!r}.{hint}", key=None if name else STAGE_VARIABLE)
    return _read(wanted, stages[wanted], paths.label(stages[wanted]), env)


def _read(name: str, path: Path, label: str, env: Mapping[str, str]) -> StageOverlay:
    data = read_yaml(path, label, may_be_empty=True)
    for key, value in data.items():
        if key not in ("connections", "dataset_ids"):
            raise ConfigError("a stage changes only 'connections' and 'dataset_ids': move it out", file=label, key=key)
        if not isinstance(value, dict):
            raise ConfigError("must be a mapping", file=label, key=key)
    ids = data.get("dataset_ids", {})
    for source, value in ids.items():
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ConfigError("must be a list of dataset ids in quotes", file=label, key=f"dataset_ids.{source}")
    filler = Interpolator(env, path.parent, label)
    of_connections = replace(filler, files=True)
    fields = read_fields(data.get("connections", {}), of_connections, below="connections")
    return StageOverlay(name=name, file=label, connections=fields, dataset_ids=ids, filler=filler)


T = TypeVar("T")
_EMPTY: Mapping[str, Any] = MappingProxyType({})


@dataclass(frozen=True, slots=True, kw_only=True)
class Config:
    """How the engine behaves and how it reaches things.

    Attributes:
        paths: where it was found.
        files, seeds, environment: layers of settings.
        personas: those of the file, else the built-in ones.
        chunking: the table of document types.
        ingest_layer: settings of `ingest`, from `ingest.json` and the environment.
        connections: the connections, with the stage's overlay.
        principals: the principals of `access.yaml`.
        stage: the overlay in force.
        notices: settings without effect, and unwise ones.
    """

    paths: ConfigPaths
    files: Layer = field(default_factory=dict)
    seeds: Layer = field(default_factory=dict)
    environment: Layer = field(default_factory=dict)
    personas: Mapping[str, Persona] = field(default_factory=dict)
    chunking: Mapping[str, ChunkingStrategy] = field(default_factory=lambda: DEFAULT_STRATEGIES)
    ingest_layer: Layer = field(default_factory=dict)
    connections: Connections = field(default_factory=Connections)
    principals: Principals = NO_PRINCIPALS
    stage: StageOverlay = NO_OVERLAY
    notices: tuple[Notice, ...] = ()

    @property
    def ingest(self) -> IngestSettings:
        """How files are read."""
        return IngestSettings(**{key: setting.value for key, setting in self.ingest_layer.items()})

    def resolver(self, domain_files: Mapping[str, str] = MappingProxyType({})) -> SettingsResolver:
        """Return the resolver of a search's settings; `domain_files` names the manifest of each domain."""
        return SettingsResolver(
            environment=self.environment,
            seeds=self.seeds,
            files=self.files,
            personas={name: persona.layer for name, persona in self.personas.items()},
            domain_files=domain_files,
        )


def load_config(paths: ConfigPaths, *, env: Mapping[str, str], stage: str | None = None) -> Config:
    """Return the configuration.

    Raises:
        ConfigError: its first problem.
    """
    config, problems = read_config(paths, env=env, stage=stage)
    if problems:
        raise ConfigError.together(problems)
    return config


UNREAD: Final = Connections()
"""Stands for connections that could not be read."""


def read_config(
    paths: ConfigPaths, *, env: Mapping[str, str], stage: str | None = None
) -> tuple[Config, list[ConfigError]]:
    """Return the usable parts of the configuration, and all its problems."""
    problems: list[ConfigError] = []

    def attempt(read: Callable[[], T], otherwise: T) -> T:
        try:
            return read()
        except ConfigError as error:
            problems.extend(error.each)
            return otherwise

    pipeline = attempt(lambda: _json(paths, "rag-pipeline.json", env), _EMPTY)
    strategies = plain(pipeline.get("chunking_strategies", {}))
    overlay = attempt(lambda: load_overlay(paths, env=env, name=stage), NO_OVERLAY)
    connections = attempt(lambda: _connections(paths, env, overlay), UNREAD)
    config = Config(
        paths=paths,
        files=attempt(lambda: _file_layer(paths, pipeline, env), {}),
        seeds=attempt(lambda: seed_layer(env), {}),
        environment=attempt(lambda: environment_layer(env), {}),
        personas=attempt(lambda: _personas(paths, env), {}),
        chunking=attempt(lambda: _chunking(paths, strategies, env), DEFAULT_STRATEGIES),
        ingest_layer={
            **attempt(lambda: ingest_layer(_json(paths, "ingest.json", env), _name(paths, "ingest.json")), {}),
            **attempt(lambda: environment_layer(env, IngestSettings), {}),
        },
        connections=connections,
        principals=attempt(lambda: _principals(paths, env), NO_PRINCIPALS),
        stage=overlay,
        notices=(*misnamed_notices(paths), *environment_notices(env), *connections.notices()),
    )
    if not problems:
        attempt(config.resolver().base, None)
    return config, problems


def _json(paths: ConfigPaths, name: str, env: Mapping[str, str]) -> Mapping[str, Any]:
    """Return a filled-in configuration file; {} if missing."""
    path = paths.config_file(name)
    if path is None:
        return _EMPTY
    label = paths.label(path)
    filler = Interpolator(env, path.parent, label, fixed=lambda location: "metadata_fields" in location)
    filled: Mapping[str, Any] = filler.fill(read_json(path, label))
    return filled


def _name(paths: ConfigPaths, name: str) -> str:
    path = paths.config_file(name)
    return paths.label(path) if path else name


def _file_layer(paths: ConfigPaths, pipeline: Mapping[str, Any], env: Mapping[str, str]) -> Layer:
    file = _name(paths, "rag-pipeline.json")
    settings = {key: value for key, value in pipeline.items() if key != "chunking_strategies"}
    lower = config_layer(settings, file, file=file)
    upper = _authority(paths, env)
    for key in lower.keys() & upper.keys():
        name = "boosts" if key == "authority_boosts" else key
        raise ConfigError(f"is also set in {file}: keep one of the two", file=upper[key].origin, key=name)
    return {**lower, **upper}


def _authority(paths: ConfigPaths, env: Mapping[str, str]) -> Layer:
    """Return the layer of `authority.json`: relevance_weight, authority_weight, boosts by tier "1" to "5"."""
    values, file = dict(_json(paths, "authority.json", env)), _name(paths, "authority.json")
    known = ["relevance_weight", "authority_weight", "boosts"]
    if unknown := [ConfigError(unknown_key(key, known), file=file, key=key) for key in values if key not in known]:
        raise ConfigError.together(unknown)
    if "boosts" in values:
        values["authority_boosts"] = _boosts(plain(values.pop("boosts")), file)
    try:
        return config_layer(values, file, file=file)
    except ConfigError as error:
        raise _under(error, file, lambda key: key.replace("authority_boosts", "boosts")) from None


def _boosts(boosts: Any, file: str) -> dict[str, Any]:
    if not isinstance(boosts, dict):
        raise ConfigError('must be a mapping of tier to boost, e.g. {"1": 0.4}', file=file, key="boosts")
    for tier in boosts:
        if tier not in ("1", "2", "3", "4", "5"):
            raise ConfigError("unknown tier. Valid: 1, 2, 3, 4, 5.", file=file, key=f"boosts.{tier}")
    return {f"tier_{tier}": boost for tier, boost in boosts.items()}


def _personas(paths: ConfigPaths, env: Mapping[str, str]) -> Mapping[str, Persona]:
    """Return the personas of `personas.json`, or the built-in ones if that file is missing."""
    if paths.config_file("personas.json") is None:
        return read_personas(built_in_personas(), BUILT_IN)
    return read_personas(_json(paths, "personas.json", env), _name(paths, "personas.json"))


def _chunking(paths: ConfigPaths, in_pipeline: Any, env: Mapping[str, str]) -> Mapping[str, ChunkingStrategy]:
    table, file = plain(dict(_json(paths, "chunking.json", env))), _name(paths, "chunking.json")
    pipeline = _name(paths, "rag-pipeline.json")
    if table and in_pipeline:
        raise ConfigError(f"is also set in {file}: keep one of the two", file=pipeline, key="chunking_strategies")
    if not isinstance(in_pipeline, dict):
        raise ConfigError("must be a mapping of document type to strategy", file=pipeline, key="chunking_strategies")
    if not table:
        return read_strategies(in_pipeline, file=pipeline)
    try:
        return read_strategies(table, file=file)
    except ConfigError as error:
        raise _under(error, file, lambda key: key.removeprefix("chunking_strategies.")) from None


def _under(error: ConfigError, file: str, key: Callable[[str], str]) -> ConfigError:
    """Return the problems with the keys and file name of the file that holds this part."""
    return ConfigError.together(
        [ConfigError(problem.problem, file=file, key=key(problem.key or "")) for problem in error.each]
    )


def _connections(paths: ConfigPaths, env: Mapping[str, str], stage: StageOverlay) -> Connections:
    path = paths.config_file("connections.yaml")
    below = Connections() if path is None else read_connections(path, paths.label(path), env)
    connections = below.over(stage.connections)
    if problems := unusable(connections.problems()):
        raise ConfigError.together(problems)
    return connections


def _principals(paths: ConfigPaths, env: Mapping[str, str]) -> Principals:
    path = paths.config_file(ACCESS_FILE)
    return NO_PRINCIPALS if path is None else Principals(read_access(path, paths.label(path), env), paths.label(path))
