"""Layers of settings: mappings of key to value and origin, read strictly; the higher layer wins key by key.

call > pipeline config > persona > domain > CONTEXT_ENGINE_* > the seeds' names > file > default
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError
from pydantic_core import ErrorDetails

from context_engine.core.models import (
    GROUPS,
    DomainSettings,
    EffectiveSettings,
    IngestSettings,
    Notice,
    NoticeCode,
    Price,
    SearchSettings,
    Settings,
    SettingsGroup,
    group_of,
    lifetime,
)
from context_engine.errors import ConfigError, ContextEngineError, InvalidRequest, closest
from context_engine.settings.files import FromVariable, Unparsed
from context_engine.settings.messages import allowed_values, field_problem, got, unknown_key

FIELDS: Final = {**Settings.model_fields, **IngestSettings.model_fields}
"""The settings of the pipeline and of ingest by key; no key is in both."""

FLAG_WORDS: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


def read(key: str, value: Any) -> Any:
    """Return the checked value of a key; free text from a variable keeps its expression for messages.

    Raises:
        ValueError: the value is not allowed; the message names the allowed values.
    """
    checked = parse(key, value) if isinstance(value, Unparsed) else _checked(key, value)
    free = isinstance(value, FromVariable) and isinstance(checked, str)
    if free and get_origin(FIELDS[key].annotation) is not Literal:
        return FromVariable(checked, value.written)
    return checked


def parse(key: str, text: str) -> Any:
    """Parse the value of a key: text keys as they are, true/yes/on/1 for flags, JSON for the rest.

    Raises:
        ValueError: the value is not allowed; the message names the allowed values.
    """
    annotation = FIELDS[key].annotation
    if annotation is str or get_origin(annotation) is Literal:
        return _checked(key, type(text)(text.strip()))
    if annotation is bool:
        return _checked(key, FLAG_WORDS.get(text.strip().casefold(), text))
    value: Any = text
    with suppress(ValueError):
        value = json.loads(text)
    return _checked(key, value)


def _checked(key: str, value: Any) -> Any:
    try:
        checked = _validator(key).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if key == "authority_boosts" and isinstance(value, Mapping):
            raise ValueError(
                _boost_problem(first["loc"], first["type"], first.get("ctx", {}), first["input"])
            ) from None
        if key == "prices" and isinstance(value, list | tuple):
            raise ValueError(_price_problem(first)) from None
        schema = _validator(key).json_schema()
        meaning = f". {FIELDS[key].description}" if "pattern" in schema else ""  # a pattern alone tells people little
        raise ValueError(f"must be {allowed_values(schema)}{got(value)}{meaning}") from None
    if key == "sources" and checked == ():
        raise ValueError("names no source: name at least one, or leave the key out for all")
    return checked


def _boost_problem(location: tuple[int | str, ...], kind: str, context: Mapping[str, Any], value: Any) -> str:
    where = ".".join(map(str, location))
    if kind == "value_error":
        return str(context["error"])
    if kind == "extra_forbidden":
        return f"{where}: unknown tier. Valid: tier_1, tier_2, tier_3, tier_4, tier_5."
    return f"{where}: must be a number from 0 to 1{got(value)}"


def _price_problem(details: ErrorDetails) -> str:
    problem = field_problem(details, details["loc"], Price)
    return ": ".join(filter(None, [".".join(map(str, details["loc"])), problem]))


@cache
def _validator(key: str) -> TypeAdapter[Any]:
    field = FIELDS[key]
    hint: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return TypeAdapter(hint)


PREFIX: Final = "CONTEXT_ENGINE_"

_SWITCHES: Final[Mapping[str, str]] = {"reranker": "reranking_enabled", "query_refiner": "query_refinement"}
"""Models of an engine, and the setting with which a search does without each."""


def misplaced(key: str, model: type[BaseModel], *, in_group: bool = False) -> str | None:
    """Return why a key cannot be set in a model, and where it can be; None if no model has it.

    Args:
        in_group: whether the key is in a group of `rag-pipeline.json`.
    """
    variable = f"{PREFIX}{key.upper()}"
    if key in IngestSettings.model_fields:
        return f"is a setting of ingest: set it in ingest.json or in {variable}"
    if key in GROUPS and issubclass(model, SettingsGroup):
        return "is a group of settings in rag-pipeline.json: set its keys here one by one"
    if key not in Settings.model_fields:
        return None
    if model is IngestSettings:
        return "is a setting of the pipeline: set it in rag-pipeline.json"
    group = group_of(key)
    if in_group:
        return f"belongs to {group!r}: move it to {group}.{key}"
    by_domain = ", in the manifest of a domain" if key in DomainSettings.model_fields else ""
    switch = f"; to do without, set {_SWITCHES[key]} to false" if key in _SWITCHES else ""
    return f"{lifetime(key)}: set it in rag-pipeline.json, in {variable}{by_domain} or in the pipeline config{switch}"


ALIASES: Final = {"min_relevance": "min_relevance_score", "top_k": "stage2_top_k", "namespaces": "sources"}
"""Other names of call options and pipeline config."""

_KEYS: Final = ("API_TOKEN", "AUDIT_FORMER_KEYS", "AUDIT_KEY", "CACHE_KEY", "PRIVACY_KEY", "SESSION_KEY", "WEBHOOK_KEY")
SECRET_VARIABLES: Final = frozenset(f"{PREFIX}{name}" for name in (*_KEYS, "AUDIT_LEDGER", "CACHE_URL"))
"""Environment variables that hold a key, or an address with a password in it."""

_RESERVED: Final = frozenset((*_KEYS, "AUDIT_LEDGER", "CACHE_URL", "CONFIG_DIR", "DATA_DIR", "STAGE"))
_SEED_NAMES: Final[Mapping[str, str]] = {
    "RAG_MIN_SIMILARITY": "min_relevance_score",
    "RAG_MIN_CHUNKS": "min_chunks",
    "RAG_RERANKER_ENABLED": "reranking_enabled",
    "RAG_RERANKER_TYPE": "reranker",
    "HYBRID_MERGE_METHOD": "merge_method",
    "HYBRID_VECTOR_WEIGHT": "vector_weight",
    "HYBRID_KEYWORD_WEIGHT": "keyword_weight",
    "RRF_K": "rrf_k",
    "RAG_COMPARE_MODE": "compare_mode",
}
_SEED_RERANKERS: Final = ("noop", "cross_encoder", "llm")
_OWN: Final = f"Give your own variables names that do not begin with {PREFIX}"
_HYBRID: Final = "HYBRID_SEARCH_ENABLED"


class Setting(NamedTuple):
    """A checked value and its origin."""

    value: Any
    origin: str


Layer = Mapping[str, Setting]
"""The keys of `Settings` or `IngestSettings` that one place sets."""

Fail = Callable[[str, str], ContextEngineError]
"""Makes the error for a key and its problem."""


def call_layer(options: Mapping[str, Any]) -> Layer:
    """Return the layer of the options of one call.

    Raises:
        InvalidRequest: an option is unknown, cannot be set by a call, is out of range, or is given under both names.
    """
    return _layer(options, "call", _fail_call, SearchSettings, ALIASES)


def _fail_call(name: str, problem: str) -> InvalidRequest:
    return InvalidRequest(f"option {name!r}: {problem}")


def check_names(options: Iterable[str], *, beside: Iterable[str]) -> None:
    """Refuse an option that a call cannot set, before its value is read or its domain is looked up.

    Args:
        options: names of options.
        beside: other names the caller accepts, for the hint.

    Raises:
        InvalidRequest: an unknown option, or one that a call cannot set; the message says what to do instead.
    """
    known = [*SearchSettings.model_fields, *ALIASES]
    for name in map(str, options):
        if name not in known:
            raise _fail_call(name, misplaced(name, SearchSettings) or unknown_key(name, [*known, *beside]))


def config_layer(
    values: Mapping[str, Any],
    origin: str,
    *,
    file: str | None = None,
    key: str = "",
    model: type[SettingsGroup] = Settings,
) -> Layer:
    """Return the layer of a mapping in a file, or of a pipeline config.

    Args:
        values: keys of the model, of `Settings` in groups too; text from a variable is parsed by the type of its key.

    Raises:
        ConfigError: an unknown or misplaced key, or a value out of range.
    """

    def fail(name: str, problem: str) -> ConfigError:
        return ConfigError(problem, file=file or origin, key=f"{key}.{name}" if key else name)

    return _layer(values, origin, fail, model, {} if file else ALIASES)


def ingest_layer(values: Mapping[str, Any], file: str) -> Layer:
    """Return the layer of `ingest.json`.

    Raises:
        ConfigError: an unknown key, or a value out of range.
    """
    return _layer(values, file, lambda key, problem: ConfigError(problem, file=file, key=key), IngestSettings)


def environment_layer(env: Mapping[str, str], model: type[BaseModel] = Settings) -> Layer:
    """Return the layer of the `CONTEXT_ENGINE_<KEY>` variables of a settings model; empty text counts as unset.

    Raises:
        ConfigError: an unreadable value, or a name close to a known one.
    """
    values = {name.removeprefix(PREFIX): text for name, text in env.items() if name.startswith(PREFIX) and text}
    problems: list[ContextEngineError] = [
        ConfigError(f"unknown setting. Did you mean {PREFIX + close!r}? {_OWN}", key=name)
        for name, close in _unknown_variables(env)
        if close is not None
    ]
    layer: dict[str, Setting] = {}
    for name, text in values.items():
        if name.lower() in model.model_fields:
            try:
                layer[name.lower()] = Setting(_parsed(name.lower(), text, PREFIX + name), PREFIX + name)
            except ConfigError as error:
                problems.append(error)
    _refuse(problems)
    return layer


def seed_layer(env: Mapping[str, str]) -> Layer:
    """Return the layer of the older names (_SEED_NAMES); HYBRID_SEARCH_ENABLED=false means no embedder.

    Raises:
        ConfigError: an unreadable value.
    """
    kind = env.get("RAG_RERANKER_TYPE")
    if kind and kind not in _SEED_RERANKERS:
        raise ConfigError(f"must be one of {', '.join(_SEED_RERANKERS)}, got {kind!r}", key="RAG_RERANKER_TYPE")
    layer = {key: Setting(_parsed(key, env[name], name), name) for name, key in _SEED_NAMES.items() if env.get(name)}
    hybrid = env.get(_HYBRID, "").strip().casefold()
    if hybrid and hybrid not in FLAG_WORDS:
        raise ConfigError(f"must be true or false, got {env[_HYBRID]!r}", key=_HYBRID)
    if hybrid and not FLAG_WORDS[hybrid]:
        layer["embedder"] = Setting(None, _HYBRID)
    return layer


def environment_notices(env: Mapping[str, str]) -> tuple[Notice, ...]:
    """Return a notice for each variable with our prefix that has no effect; a misspelt setting is an error."""
    return tuple(
        Notice(
            NoticeCode.VARIABLE_UNKNOWN,
            name,
            f"{name} is set, but is not a setting; it has an effect only where a ${{{name}}} names it",
        )
        for name, close in _unknown_variables(env)
        if close is None
    )


def _unknown_variables(env: Mapping[str, str]) -> list[tuple[str, str | None]]:
    """Return the unknown variables with our prefix, each with the closest known name."""
    known = {key.upper() for key in FIELDS} | _RESERVED
    written = sorted(name.removeprefix(PREFIX) for name, text in env.items() if name.startswith(PREFIX) and text)
    return [(PREFIX + name, closest(name, known)) for name in written if name not in known]


def _parsed(key: str, text: str, variable: str) -> Any:
    try:
        return parse(key, text)
    except ValueError as error:
        raise ConfigError(str(error), key=variable) from None


def effective_settings(
    *,
    call: Layer = MappingProxyType({}),
    pipeline: Layer = MappingProxyType({}),
    persona: Layer = MappingProxyType({}),
    domain: Layer = MappingProxyType({}),
    environment: Layer = MappingProxyType({}),
    seeds: Layer = MappingProxyType({}),
    files: Layer = MappingProxyType({}),
) -> EffectiveSettings:
    """Return the settings in force with the origin of each; the arguments go from the highest layer down."""
    merged = {**files, **seeds, **environment, **domain, **persona, **pipeline, **call}
    return with_layer(EffectiveSettings.of_defaults(), merged)


def with_layer(base: EffectiveSettings, layer: Layer) -> EffectiveSettings:
    """Return `base` overridden by a checked layer; only the sum of the weights is checked again.

    Raises:
        InvalidRequest: the weights of a call add up to more than 1.
        ConfigError: the weights of a file or the environment do.
    """
    if not layer:
        return base
    values = base.values.model_copy(update={key: setting.value for key, setting in layer.items()})
    problem = values.weights_problem(layer.keys())
    if problem:
        key = next(key for key in ("relevance_weight", "authority_weight") if key in layer)
        origin = layer[key].origin
        raise InvalidRequest(problem) if origin == "call" else ConfigError(problem, file=origin, key=key)
    origins = {**base.origins, **{key: setting.origin for key, setting in layer.items()}}
    return EffectiveSettings.model_construct(values=values, origins=origins)


def _layer(
    values: Mapping[str, Any],
    origin: str,
    fail: Fail,
    model: type[BaseModel] = Settings,
    aliases: Mapping[str, str] = MappingProxyType({}),
) -> Layer:
    """Return a layer with the keys of a model; those of `Settings` may be in groups."""
    out: dict[str, Setting] = {}
    names: dict[str, str] = {}
    problems: list[ContextEngineError] = []
    for name, written, value, group in _entries(values, model, fail, problems):
        key = aliases.get(written, written)
        if key not in group.model_fields:
            known = [*group.model_fields, *aliases, *(GROUPS if group is Settings else ())]
            problem = misplaced(key, group, in_group=group is not model) or unknown_key(key, known)
            problems.append(fail(name, problem))
        elif key in out:
            problems.append(fail(name, f"sets the same as {names[key]!r}: keep one of the two"))
        else:
            try:
                out[key], names[key] = Setting(read(key, value), origin), name
            except ValueError as error:
                problems.append(fail(name, str(error)))
    _refuse(problems)
    return out


def _refuse(problems: Sequence[ContextEngineError]) -> None:
    """Raise the problems: configuration errors together, otherwise the first one."""
    of_configuration = [problem for problem in problems if isinstance(problem, ConfigError)]
    if problems:
        raise ConfigError.together(of_configuration) if of_configuration else problems[0]


def _entries(
    values: Mapping[str, Any], model: type[BaseModel], fail: Fail, problems: list[ContextEngineError]
) -> Iterator[tuple[str, str, Any, type[BaseModel]]]:
    """Yield (name in messages, key, value, model that must have the key); in a group the name is `search.expired`."""
    for name, value in values.items():
        if model is not Settings or name not in GROUPS:
            yield str(name), str(name), value, model
            continue
        if not isinstance(value, Mapping):
            problems.append(fail(name, f"must be a mapping of keys to values{got(value)}"))
            continue
        for key, entry in value.items():
            yield f"{name}.{key}", str(key), entry, GROUPS[name]
