"""Parses and checks the value of a setting, and says in which file a setting belongs."""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, Final, Literal, get_origin

from pydantic import BaseModel, TypeAdapter, ValidationError

from context_engine.core.models import (
    GROUPS,
    DomainSettings,
    IngestSettings,
    Settings,
    SettingsGroup,
    group_of,
    lifetime,
)
from context_engine.settings.files import FromVariable, Unparsed
from context_engine.settings.messages import allowed_values, got

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
        ValueError: not allowed; the message says what is.
    """
    checked = parse(key, value) if isinstance(value, Unparsed) else _checked(key, value)
    free = isinstance(value, FromVariable) and isinstance(checked, str)
    if free and get_origin(FIELDS[key].annotation) is not Literal:
        return FromVariable(checked, value.written)
    return checked


def parse(key: str, text: str) -> Any:
    """Parse the value of a key: text keys as they are, true/yes/on/1 for flags, JSON for the rest.

    Raises:
        ValueError: not allowed; the message says what is.
    """
    annotation = FIELDS[key].annotation
    if annotation is str or get_origin(annotation) is Literal:
        return _checked(key, type(text)(text.strip()))
    if annotation is bool:
        return _checked(key, FLAG_WORDS.get(text.strip().casefold(), text))
    try:
        value = json.loads(text)
    except ValueError:
        value = text
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
    field = FIELDS[key]
    hint: Any = Annotated[(field.annotation, *field.metadata)] if field.metadata else field.annotation
    return TypeAdapter(hint)


@cache
def _allowed(key: str) -> str:
    return allowed_values(_validator(key).json_schema())


PREFIX: Final = "CONTEXT_ENGINE_"
"""Prefix of the variables of settings."""

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
