"""Personas: named profiles of settings, from `personas.json` or built in."""

from __future__ import annotations

import json
from collections.abc import Mapping
from importlib.resources import files
from typing import Any, Final, NamedTuple

from context_engine.core.models import SearchSettings
from context_engine.errors import ConfigError
from context_engine.settings.layers import Layer, config_layer
from context_engine.settings.messages import unknown_key
from context_engine.settings.values import misplaced

BUILT_IN: Final = "built-in"
"""The origin of a built-in persona's settings."""

PERSONA_KEYS: Final[Mapping[str, str]] = {
    "max_results": "stage2_top_k",
    "min_results": "min_chunks",
    "rerank": "reranking_enabled",
    "namespaces": "sources",
}
"""Names of some settings in personas; the keys of `SearchSettings` themselves work too."""


def built_in_personas() -> dict[str, Any]:
    """Return the built-in personas, which `init` also writes to `personas.json`."""
    rows = json.loads(personas_file())
    return {name: row for name, row in rows.items() if not name.startswith("//")}


def personas_file() -> bytes:
    """Return `personas.json` as `init` writes it."""
    return (files("context_engine.settings") / "personas.json").read_bytes()


class Persona(NamedTuple):
    """A persona.

    Attributes:
        layer: its settings.
        description: its purpose; "" if not given.
        origin: its file, or `BUILT_IN`.
    """

    layer: Layer
    description: str
    origin: str


def read_personas(rows: Mapping[str, Any], file: str) -> Mapping[str, Persona]:
    """Return each persona with its description; see `persona_layers`."""
    layers = persona_layers(rows, file)
    return {name: Persona(layer, str(rows[name].get("description", "")), file) for name, layer in layers.items()}


def persona_layers(rows: Mapping[str, Any], file: str) -> Mapping[str, Layer]:
    """Return a layer for each persona. `similarity_threshold` is on the cosine unless `similarity_kind` differs.

    Raises:
        ConfigError: a persona is not a mapping, or has an unknown, misplaced or duplicate key or a value out of range.
    """
    layers: dict[str, Layer] = {}
    problems: list[ConfigError] = []
    for name, row in rows.items():
        try:
            layers[name] = _layer(name, row, file)
        except ConfigError as error:
            problems.append(error)
    if problems:
        raise ConfigError.together(problems)
    return layers


def _layer(name: str, row: Any, file: str) -> Layer:
    if not isinstance(row, Mapping):
        raise ConfigError("must be a mapping of keys to values", file=file, key=name)
    values: dict[str, Any] = {}
    problems: list[ConfigError] = []
    for key, value in row.items():
        if key == "description":
            if not isinstance(value, str):
                wanted = "must be text that says what the persona is for"
                problems.append(ConfigError(wanted, file=file, key=f"{name}.{key}"))
            continue
        target = PERSONA_KEYS.get(key, key)
        if target not in SearchSettings.model_fields:
            known = ["description", *PERSONA_KEYS, *SearchSettings.model_fields]
            problem = misplaced(key, SearchSettings) or unknown_key(key, known)
            problems.append(ConfigError(problem, file=file, key=f"{name}.{key}"))
        elif target in values:
            problem = "sets the same as another key of this persona: keep one"
            problems.append(ConfigError(problem, file=file, key=f"{name}.{key}"))
        else:
            values[target] = value
    if "similarity_threshold" in values:
        values.setdefault("similarity_kind", "cosine")
    try:
        layer = config_layer(values, f"persona {name} ({file})", file=file, key=name, model=SearchSettings)
    except ConfigError as error:
        raise ConfigError.together([*problems, error]) from None
    if problems:
        raise ConfigError.together(problems)
    return layer
