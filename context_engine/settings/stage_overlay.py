"""The overlay of a stage, `manifests/stages/NAME.yaml`: other connections and datasets for the same manifests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from context_engine.errors import ConfigError, nearest
from context_engine.settings.connections import Fields, read_fields
from context_engine.settings.files import Interpolator, read_yaml
from context_engine.settings.paths import ConfigPaths

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
