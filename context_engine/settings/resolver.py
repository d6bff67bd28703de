"""The settings of a search: layers of defaults, files, domain, persona, experiment and call."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from importlib.resources import files
from types import MappingProxyType
from typing import Any, Final, Literal, NamedTuple

from context_engine.core.models import (
    DomainSettings,
    DomainSpec,
    EffectiveSettings,
    Experiment,
    SearchRequest,
    SearchSettings,
)
from context_engine.errors import ConfigError, InvalidRequest, nearest
from context_engine.settings.layers import (
    Layer,
    Setting,
    call_layer,
    config_layer,
    effective_settings,
    misplaced,
    with_layer,
)
from context_engine.settings.messages import unknown_key

Arm = Literal["a", "b"]
_ARM: Final = "experiment_arm"


def arm_of(experiment: str, caller: str) -> Arm:
    """Return the arm of a caller: the same for the whole experiment, and independent of that in others.

    Args:
        experiment: its name, which salts the hash.
        caller: who asks, as the request names them.
    """
    return "b" if hashlib.sha256(f"{experiment}\x00{caller}".encode()).digest()[0] & 1 else "a"


def asking_person(request: SearchRequest) -> str:
    """Return who asks: the person a program asks for, else the authenticated caller; "" if unknown."""
    return request.caller.on_behalf_of or request.principal.id or request.caller.principal or ""


class _RunningExperiment(NamedTuple):
    name: str
    arms: Mapping[Arm, Layer]


class Experiments:
    """The layers of settings of the declared experiments.

    Args:
        declared: by name.
        origin: where they are declared, for messages.

    Raises:
        ConfigError: an arm sets what a search cannot have its own value of, or a value out of range.
    """

    def __init__(self, declared: Mapping[str, Experiment], origin: str) -> None:
        self._running = {
            experiment.domain: _RunningExperiment(
                name,
                {"a": _arm_layer(name, "a", experiment.a, origin), "b": _arm_layer(name, "b", experiment.b, origin)},
            )
            for name, experiment in declared.items()
        }

    def layer(self, request: SearchRequest) -> Layer:
        """Return the settings of the caller's arm; none for an unknown caller, or without an experiment."""
        running, caller = self._running.get(request.domain), asking_person(request)
        if running is None or not caller:
            return _NOTHING
        return running.arms[arm_of(running.name, caller)]


def _arm_layer(name: str, arm: Arm, settings: Mapping[str, Any], origin: str) -> Layer:
    key = f"experiments.{name}.{arm}"
    layer = config_layer(settings, f"experiment {name}", file=origin, key=key, model=SearchSettings)
    return {**layer, _ARM: Setting(f"{name}/{arm}", f"experiment {name}")}


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


_NOTHING: Final[Layer] = MappingProxyType({})
_CACHE_SIZE: Final = 256


class SettingsResolver:
    """Resolves the settings in force from the loaded layers.

    Thread-safe. All layers but the call's own options are merged once per domain and persona.

    Args:
        environment, seeds, files: the layers of `CONTEXT_ENGINE_*`, of the older names, and of the files.
        personas: a layer for each persona.
        pipeline: the layer of a pipeline config.
        domain_files: the manifest of each domain, for origins and messages.
    """

    def __init__(
        self,
        *,
        environment: Layer = _NOTHING,
        seeds: Layer = _NOTHING,
        files: Layer = _NOTHING,
        personas: Mapping[str, Layer] = MappingProxyType({}),
        pipeline: Layer = _NOTHING,
        domain_files: Mapping[str, str] = MappingProxyType({}),
    ) -> None:
        self._environment, self._seeds, self._files = environment, seeds, files
        self._personas, self._pipeline, self._domain_files = personas, pipeline, domain_files
        self._experiments: Experiments | None = None
        self._cache: dict[tuple[str | None, str | None], tuple[Mapping[str, Any] | None, EffectiveSettings]] = {}

    @property
    def personas(self) -> tuple[str, ...]:
        """The names of the personas, sorted."""
        return tuple(sorted(self._personas))

    def with_pipeline(self, config: Mapping[str, Any]) -> SettingsResolver:
        """Return a copy with a pipeline config in force (`min_relevance` and `top_k` are accepted too).

        Raises:
            ConfigError: an unknown key, or a value out of range.
        """
        return SettingsResolver(
            environment=self._environment,
            seeds=self._seeds,
            files=self._files,
            personas=self._personas,
            pipeline={**self._pipeline, **config_layer(config, "pipeline config")},
            domain_files=self._domain_files,
        )

    def resolve(self, domain: DomainSpec | None, request: SearchRequest) -> EffectiveSettings:
        """Return the settings for one search; a call may shorten the lifetimes of the cache, but not lengthen them.

        Raises:
            InvalidRequest: an unknown option or persona, a value out of range, or a longer lifetime.
            ConfigError: unusable settings of the domain or persona.
        """
        base = with_layer(self.base(domain, request.persona), self._running_experiments().layer(request))
        call = call_layer(request.call_settings)
        _check_lifetimes(base, call)
        return with_layer(base, call)

    def base(self, domain: DomainSpec | None = None, persona: str | None = None) -> EffectiveSettings:
        """Return the settings without a call's own options.

        Raises:
            InvalidRequest: an unknown persona.
            ConfigError: unusable settings of the domain.
        """
        key = (domain.domain if domain else None, persona)
        cached = self._cache.get(key)
        given = None if domain is None else domain.settings
        if cached is not None and cached[0] is given:
            return cached[1]
        settings = self._merged(domain, persona)
        if len(self._cache) >= _CACHE_SIZE:
            self._cache.clear()
        self._cache[key] = (given, settings)
        return settings

    def check_experiments(self) -> None:
        """Read the settings of every experiment.

        Raises:
            ConfigError: an arm has a setting that a search cannot have, or a value out of range.
        """
        self._running_experiments()

    def _running_experiments(self) -> Experiments:
        if self._experiments is None:
            base = self.base()
            origin = base.origins.get("experiments", "default")
            self._experiments = Experiments(base.values.experiments, origin)
        return self._experiments

    def _merged(self, domain: DomainSpec | None, persona: str | None) -> EffectiveSettings:
        return effective_settings(
            pipeline=self._pipeline,
            persona=self._persona(persona),
            domain=_NOTHING if domain is None else self._domain(domain),
            environment=self._environment,
            seeds=self._seeds,
            files=self._files,
        )

    def _persona(self, name: str | None) -> Layer:
        if name is None:
            return _NOTHING
        if name not in self._personas:
            known = nearest(name, self._personas) or " config/personas.json names none."
            raise InvalidRequest(f"unknown persona {name!r}.{known}")
        return self._personas[name]

    def _domain(self, domain: DomainSpec) -> Layer:
        file = self._domain_files.get(domain.domain)
        origin = f"domain {domain.domain} ({file})" if file else f"domain {domain.domain}"
        return config_layer(
            domain.settings, origin, file=file or f"domain {domain.domain}", key="settings", model=DomainSettings
        )


_ONLY_SHORTER: Final = ("cache_ttl_s", "cache_unversioned_ttl_s")


def _check_lifetimes(base: EffectiveSettings, call: Layer) -> None:
    """Refuse a call that would keep answers for longer than the configuration allows.

    Raises:
        InvalidRequest: it would.
    """
    for key in _ONLY_SHORTER:
        longest = getattr(base.values, key)
        if key in call and call[key].value > longest:
            raise InvalidRequest(
                f"option {key!r}: a call may shorten the lifetime that is configured ({longest:g} s, from "
                f"{base.origins.get(key, 'default')}), not lengthen it: set it in rag-pipeline.json, for the persona "
                "or for the domain"
            )
