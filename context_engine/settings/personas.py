"""Personas: named profiles of settings in `personas.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from context_engine.core.models import SearchSettings
from context_engine.errors import ConfigError
from context_engine.settings.layers import Layer, config_layer
from context_engine.settings.messages import unknown_key
from context_engine.settings.placement import misplaced

__all__ = ["PERSONA_KEYS", "persona_layers"]

PERSONA_KEYS: Final[Mapping[str, str]] = {
    "max_results": "stage2_top_k",
    "min_results": "min_chunks",
    "rerank": "reranking_enabled",
    "namespaces": "sources",
}
"""A persona's own names of some keys of `SearchSettings`; the keys themselves may be used too."""


def persona_layers(rows: Mapping[str, Any], file: str) -> Mapping[str, Layer]:
    """Return a layer for each persona. A similarity_threshold is one on cosine unless similarity_kind says otherwise.

    Raises:
        ConfigError: a persona that is not a mapping, a key that is not known, belongs elsewhere or is there twice, or a
            value out of range.
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
        target = PERSONA_KEYS.get(key, key)
        if target not in SearchSettings.model_fields:
            problem = misplaced(key, SearchSettings)
            problem = problem or unknown_key(key, [*PERSONA_KEYS, *SearchSettings.model_fields])
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
