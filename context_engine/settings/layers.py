"""Settings in layers: each a mapping of key to value and origin, read strictly; the higher layer wins key by key.

call > pipeline config > persona > domain > CONTEXT_ENGINE_* > the seeds' names > file > default
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from types import MappingProxyType
from typing import Annotated, Any, Final, Literal, NamedTuple, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from context_engine.core.models import EffectiveSettings, IngestSettings, Notice, NoticeCode, Settings
from context_engine.errors import ConfigError, ContextEngineError, InvalidRequest, closest
from context_engine.settings.interpolate import FromVariable, Written
from context_engine.settings.sentences import allowed_values, got, unknown_key

__all__ = [
    "ALIASES",
    "Layer",
    "Setting",
    "call_layer",
    "check_names",
    "config_layer",
    "effective_settings",
    "environment_layer",
    "environment_notices",
    "ingest_layer",
    "seed_layer",
]

ALIASES: Final[Mapping[str, str]] = {"min_relevance": "min_relevance_score", "top_k": "stage2_top_k"}
"""Short names of call options and pipeline config."""

PREFIX: Final = "CONTEXT_ENGINE_"
_FIELDS: Final = {**Settings.model_fields, **IngestSettings.model_fields}
"""Keys of a search and of reading files; none stands in both."""
_RESERVED: Final = frozenset({"CONFIG_DIR", "DATA_DIR", "STAGE"})
_SEED_NAMES: Final[Mapping[str, str]] = {
    "RAG_MIN_SIMILARITY": "min_relevance_score",
    "RAG_MIN_CHUNKS": "min_chunks",
    "RAG_RERANKER_ENABLED": "reranking_enabled",
    "RAG_RERANKER_TYPE": "reranker",
    "HYBRID_MERGE_METHOD": "merge_method",
    "HYBRID_VECTOR_WEIGHT": "vector_weight",
    "HYBRID_KEYWORD_WEIGHT": "keyword_weight",
    "RRF_K": "rrf_k",
}
_SEED_RERANKERS: Final = ("noop", "cross_encoder", "llm")
_SEED_WITHOUT_EFFECT: Final = ("RAG_COMPARE_MODE",)
_HYBRID: Final = "HYBRID_SEARCH_ENABLED"
_WORDS: Final = {
    "true": True,
    "1": True,
    "yes": True,
    "on": True,
    "false": False,
    "0": False,
    "no": False,
    "off": False,
}


class Setting(NamedTuple):
    """A checked value and where it came from."""

    value: Any
    origin: str


Layer = Mapping[str, Setting]
"""Keys of `Settings`, or of `IngestSettings`, with their values from one place."""

Fail = Callable[[str, str], ContextEngineError]
"""Makes the error for a key and what is wrong with it."""


def call_layer(options: Mapping[str, Any]) -> Layer:
    """Return the layer of the options of one call.

    Raises:
        InvalidRequest: an option that is not known, out of range, or given under both of its names.
    """
    return _layer(options, "call", lambda key, problem: InvalidRequest(f"option {key!r}: {problem}"), ALIASES)


def check_names(options: Iterable[str], *, beside: Iterable[str]) -> None:
    """Refuse an option of a call that is no setting, before its value or its domain is looked at.

    Args:
        options: names of settings.
        beside: other names that the caller knows, for the hint.

    Raises:
        InvalidRequest: a name that is not known; the message says the nearest.
    """
    known = [*Settings.model_fields, *ALIASES]
    for name in options:
        if name not in known:
            raise InvalidRequest(f"option {name!r}: {unknown_key(str(name), [*known, *beside])}")


def config_layer(values: Mapping[str, Any], origin: str, *, file: str | None = None, key: str = "") -> Layer:
    """Return the layer of a mapping that stands in a file or was given as pipeline config.

    Args:
        values: keys of `Settings`; texts out of a variable are read by the type of their key.
        origin: what `config show` and the result say.
        file: the file for messages.
        key: where the mapping stands in the file.

    Raises:
        ConfigError: a key that is not known, or a value out of range.
    """

    def fail(name: str, problem: str) -> ConfigError:
        return ConfigError(problem, file=file or origin, key=f"{key}.{name}" if key else name)

    return _layer(values, origin, fail, {} if file else ALIASES)


def ingest_layer(values: Mapping[str, Any], file: str) -> Layer:
    """Return the layer of `ingest.json`.

    Raises:
        ConfigError: a key that is not known, or a value out of range.
    """
    return _layer(values, file, lambda key, problem: ConfigError(problem, file=file, key=key), {}, IngestSettings)


def environment_layer(env: Mapping[str, str], model: type[BaseModel] = Settings) -> Layer:
    """Return the layer of `CONTEXT_ENGINE_<KEY>` for every key of a model of settings; empty text counts as not set.

    Raises:
        ConfigError: a value that cannot be read, or a name that is close to a known one.
    """
    found = {name.removeprefix(PREFIX): text for name, text in env.items() if name.startswith(PREFIX) and text}
    known = {key.upper() for key in _FIELDS}
    for name in sorted(found.keys() - known - _RESERVED):
        close = closest(name, known | _RESERVED)
        if close is not None:
            raise ConfigError(f"unknown setting. Did you mean {PREFIX + close!r}?", key=PREFIX + name)
    return {
        name.lower(): Setting(_parsed(name.lower(), text, PREFIX + name), PREFIX + name)
        for name, text in found.items()
        if name.lower() in model.model_fields
    }


def seed_layer(env: Mapping[str, str]) -> Layer:
    """Return the layer of the older names (_SEED_NAMES); HYBRID_SEARCH_ENABLED=false stands for no embedder.

    Raises:
        ConfigError: a value that cannot be read.
    """
    kind = env.get("RAG_RERANKER_TYPE")
    if kind and kind not in _SEED_RERANKERS:
        raise ConfigError(f"must be one of {', '.join(_SEED_RERANKERS)}, got {kind!r}", key="RAG_RERANKER_TYPE")
    layer = {key: Setting(_parsed(key, env[name], name), name) for name, key in _SEED_NAMES.items() if env.get(name)}
    hybrid = env.get(_HYBRID, "").strip().casefold()
    if hybrid and hybrid not in _WORDS:
        raise ConfigError(f"must be true or false, got {env[_HYBRID]!r}", key=_HYBRID)
    if hybrid and not _WORDS[hybrid]:
        layer["embedder"] = Setting(None, _HYBRID)
    return layer


def environment_notices(env: Mapping[str, str]) -> tuple[Notice, ...]:
    """Return a notice for each variable that looks like ours and changes nothing."""
    known = {key.upper() for key in _FIELDS} | _RESERVED
    unknown = sorted(name for name in env if name.startswith(PREFIX) and name.removeprefix(PREFIX) not in known)
    return (
        *(
            Notice(
                NoticeCode.VARIABLE_WITHOUT_EFFECT, name, f"{name} is set, but this version has nothing it could switch"
            )
            for name in _SEED_WITHOUT_EFFECT
            if name in env
        ),
        *(
            Notice(
                NoticeCode.VARIABLE_UNKNOWN,
                name,
                f"{name} is set, but is no setting; it has an effect only where a ${{{name}}} names it",
            )
            for name in unknown
        ),
    )


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
    """Return the settings in force and the origin of each, highest layer first in the list of arguments."""
    merged = {**files, **seeds, **environment, **domain, **persona, **pipeline, **call}
    return with_layer(EffectiveSettings(), merged)


def with_layer(base: EffectiveSettings, layer: Layer) -> EffectiveSettings:
    """Return `base` with a checked layer laid over it; of its values only the sum of the weights is checked again.

    Raises:
        InvalidRequest: the weights of a call add up to more than 1.
        ConfigError: those of a file or the environment do.
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
    values: Mapping[str, Any], origin: str, fail: Fail, aliases: Mapping[str, str], model: type[BaseModel] = Settings
) -> Layer:
    out: dict[str, Setting] = {}
    for name, value in values.items():
        key = aliases.get(name, name)
        if key not in model.model_fields:
            raise fail(str(name), unknown_key(str(name), [*model.model_fields, *aliases]))
        if key in out:
            other = next(one for one in values if one != name and aliases.get(one, one) == key)
            raise fail(name, f"says the same as {other!r}: give one of the two")
        try:
            out[key] = Setting(_read(key, value), origin)
        except ValueError as error:
            raise fail(name, str(error)) from None
    return out


def _read(key: str, value: Any) -> Any:
    """Return the checked value; free text that came out of a variable keeps the expression it is shown by."""
    checked = _parse(key, value) if isinstance(value, Written) else _checked(key, value)
    free = isinstance(value, FromVariable) and isinstance(checked, str)
    if free and get_origin(Settings.model_fields[key].annotation) is not Literal:
        return FromVariable(checked, value.written)
    return checked


def _parsed(key: str, text: str, variable: str) -> Any:
    try:
        return _parse(key, text)
    except ValueError as error:
        raise ConfigError(str(error), key=variable) from None


def _parse(key: str, text: str) -> Any:
    """Return the value of a key from text: as it stands for text keys, true/yes/on/1 for flags, else JSON."""
    annotation = _FIELDS[key].annotation
    if annotation is str or get_origin(annotation) is Literal:
        return _checked(key, type(text)(text.strip()))
    if annotation is bool:
        return _checked(key, _WORDS.get(text.strip().casefold(), text))
    try:
        value = json.loads(text)
    except ValueError:
        value = text
    return _checked(key, value)


def _checked(key: str, value: Any) -> Any:
    """Return the value as its model holds it, or raise ValueError with a sentence that says what is allowed."""
    try:
        checked = _validator(key).validate_python(value)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        if key == "authority_boosts" and isinstance(value, Mapping):
            raise ValueError(
                _boost_problem(first["loc"], first["type"], first.get("ctx", {}), first["input"])
            ) from None
        raise ValueError(f"must be {_allowed(key)}{got(value)}") from None
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


@cache
def _validator(key: str) -> TypeAdapter[Any]:
    field = _FIELDS[key]
    hint: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return TypeAdapter(hint)


@cache
def _allowed(key: str) -> str:
    return allowed_values(_validator(key).json_schema())
