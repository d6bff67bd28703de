"""The contents of `config show` and `config diff`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine.core.models import GROUPS, IngestSettings, Settings, group_of
from context_engine.core.ranking.scope import CALIBRATED, MEASURED_DEFAULT
from context_engine.settings import Config, ConfigPaths, read_config
from context_engine.settings.registry import LoadedRegistry, read_registry
from context_engine.wiring.scope import scope_in_force
from context_engine.wiring.setup import Setup

_PLACE: Final = {name: place for place, name in enumerate(GROUPS)}
_FROM_THE_BASE: Final = frozenset((CALIBRATED, MEASURED_DEFAULT))


class ShownSetting(NamedTuple):
    """One setting: value in force, origin, built-in default, meaning and group."""

    key: str
    value: Any
    origin: str
    default: Any
    description: str
    group: str


class StageDifference(NamedTuple):
    """A key whose value differs between two stages; values as written, secrets masked; None: not set."""

    key: str
    left: Any
    right: Any


def show(
    setup: Setup, *, domain: str | None = None, persona: str | None = None, data_dir: Path | None = None
) -> tuple[ShownSetting, ...]:
    """Return every setting in force, for a domain and persona if given; settings of ingest come last.

    Args:
        data_dir: the data folder, whose calibration may set the scope threshold of a domain.

    Raises:
        UnknownDomain, InvalidRequest: an unknown domain or persona.
        ConfigError: an unusable domain.
    """
    spec = setup.registry.domain(domain) if domain else None
    effective = setup.resolver.base(spec, persona)
    defaults = Settings().model_dump(mode="json")
    in_force = effective.to_dict()
    scope = scope_in_force(setup, spec, data_dir, persona=persona) if spec is not None else None
    if scope is not None and scope.origin:
        in_force["scope_threshold"] = {"value": scope.value, "origin": scope.origin}
    return (
        *(
            ShownSetting(
                key,
                entry["value"],
                entry["origin"],
                defaults[key],
                Settings.model_fields[key].description or "",
                group_of(key),
            )
            for key, entry in sorted(in_force.items(), key=lambda item: _PLACE[group_of(item[0])])
        ),
        *_of_ingest(setup.config),
    )


def _of_ingest(config: Config) -> Iterator[ShownSetting]:
    values, defaults = config.ingest.model_dump(mode="json"), IngestSettings().model_dump(mode="json")
    for key, field in IngestSettings.model_fields.items():
        origin = config.ingest_layer[key].origin if key in config.ingest_layer else "default"
        yield ShownSetting(key, values[key], origin, defaults[key], field.description or "", "ingest")


def changed(shown: Iterable[ShownSetting]) -> tuple[ShownSetting, ...]:
    """Return the settings that differ from the default; a calibrated threshold is not a setting."""
    return tuple(
        setting for setting in shown if setting.value != setting.default and setting.origin not in _FROM_THE_BASE
    )


def diff_stages(
    paths: ConfigPaths, left: str | None, right: str | None, *, env: Mapping[str, str]
) -> tuple[StageDifference, ...]:
    """Return the differences of two stages (None: no stage): connection keys and dataset ids.

    Raises:
        ConfigError: an unknown stage or an unreadable file.
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
