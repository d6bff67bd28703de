"""Turns pydantic errors into sentences that a person can act on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from context_engine.errors import ConfigError, closest, did_you_mean, nearest
from context_engine.settings.files import FromVariable, Location, Unfilled, dotted

_RULES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("access", "acl", "access_control", "permissions", "entitlements"), "roles: [...]"),
    **dict.fromkeys(("allow", "allowed_roles", "required_roles", "roles", "role"), "roles: [...]"),
    **dict.fromkeys(("allowed_users", "users", "principals"), "roles: [...]"),
    **dict.fromkeys(("allowed_groups", "required_groups", "groups", "group"), "groups: [...]"),
    **dict.fromkeys(("clearance", "min_clearance", "required_clearance"), "clearance: CONFIDENTIAL"),
}
"""Keys that people try for an access rule, and the part of a rule that replaces each."""

_NO_DAY: Final = ("date_type", "date_parsing", "date_from_datetime_parsing", "date_from_datetime_inexact")

_NOT_ENFORCED: Final = frozenset(
    [
        "deny",
        "denied_groups",
        "denied_roles",
        "denied_users",
        "policy",
        "policies",
        "retention",
        "synonyms",
        "expand",
        "expansion",
        "language",
        "embedder",
        "embedding",
        "rerankers",
        "fallback",
        "encryption",
    ]
)
"""Common keys that promise something this version does not do."""

_MASKED: Final = frozenset(("anonymise", "anonymize", "mask", "masking", "pii", "personal_data", "redact", "redaction"))
"""Keys that people try to have personal data masked."""

_SYNONYMS: Final = {
    "authority_tier": "tier",
    "level": "tier",
    "kind": "type",
    "source_type": "type",
    "ttl": "ttl_seconds",
    "source_id": "id",
    "url": "base_url",
    "host": "base_url",
    "endpoint": "base_url",
    "key": "api_key",
    "token": "api_key",
}
"""Other spellings of known keys."""

_HIDDEN: Final = object()


def config_error(
    error: ValidationError, data: Any, model: type[BaseModel], *, file: str, show_values: bool = True
) -> ConfigError:
    """Return the problems of a validation together; each names file, key and the nearest valid choice.

    Args:
        data: the validated data, for the names of list items.
        show_values: False if values may be secrets.
    """
    return ConfigError.together(config_problems(error, data, model, file=file, show_values=show_values))


def config_problems(
    error: ValidationError, data: Any, model: type[BaseModel], *, file: str, show_values: bool = True
) -> list[ConfigError]:
    """Return the problems of `config_error`, except those of `Unfilled` values."""
    problems: dict[str, ConfigError] = {}
    errors = error.errors(include_url=False)
    for details in sorted(errors, key=_urgency):
        location: Location = tuple(details["loc"])
        if isinstance(details["input"], Unfilled) or _follows(details, errors):
            continue
        if not show_values:
            details["input"] = _HIDDEN
        key = dotted(location, data)
        problems.setdefault(key, ConfigError(field_problem(details, location, model), file=file, key=key or None))
    return list(problems.values())


def unknown_key(key: str, known: Mapping[str, Any] | list[str]) -> str:
    """Return the message for an unknown key."""
    if key in _RULES and "access" in known:
        return f"unknown key: to say who may search it, use 'access: {{{_RULES[key]}}}'."
    if key in _MASKED and closest(key, known) is None:
        return "unknown key: personal data is masked where 'mask_contexts: true' stands in a domain's settings."
    if (key in _RULES or key in _NOT_ENFORCED) and closest(key, known) is None:
        problem = "this version does not enforce this key, so it is refused rather than ignored: remove it"
        return (
            problem if key in _NOT_ENFORCED else f"{problem}. Access rules stand at a domain or a source of a manifest."
        )
    meant = _SYNONYMS.get(key.casefold(), key)
    return f"unknown key.{nearest(meant if meant in known else key, known)}"


def got(value: Any) -> str:
    """Return ", got ..." for a value that may be shown."""
    if value is _HIDDEN:
        return ""
    if isinstance(value, FromVariable):
        return ", got another value from its ${...}"
    if isinstance(value, (dict, list, tuple)):
        return f", got {'a' if value else 'an empty'} {'mapping' if isinstance(value, dict) else 'list'}"
    text = repr(value)
    return f", got {text if len(text) <= 60 else text[:57] + '...'}"


def allowed_values(schema: Mapping[str, Any]) -> str:
    """Return the values that a JSON Schema allows, in words.

    >>> allowed_values({"type": "integer", "minimum": 1, "maximum": 1000})
    'a whole number from 1 to 1000'
    """
    if "anyOf" in schema:
        return " or ".join(allowed_values(option) for option in schema["anyOf"])
    if "enum" in schema:
        return "one of " + ", ".join(map(str, schema["enum"]))
    kind = schema.get("type")
    if kind in ("integer", "number"):
        return ("a whole number" if kind == "integer" else "a number") + _range(schema)
    if kind == "array":
        item = allowed_values(schema.get("items", {}))
        return "a list of mappings" if item == "a mapping" else f"a list of {item}"
    if schema.get("format") == "date":
        return "a day such as 2025-06-30"
    if kind == "string" and "pattern" in schema:
        return f"text that matches the pattern {schema['pattern']}"
    return {"string": "text", "boolean": "true or false", "null": "null"}.get(str(kind), "a mapping")


def _range(schema: Mapping[str, Any]) -> str:
    low = schema.get("minimum", schema.get("exclusiveMinimum"))
    high = schema.get("maximum", schema.get("exclusiveMaximum"))
    above = "above" if "exclusiveMinimum" in schema else "from"
    if low is not None and high is not None:
        return f" from {_n(low)} to {_n(high)}" if above == "from" else f" above {_n(low)}, up to {_n(high)}"
    if low is not None:
        return f" {above} {_n(low)}" + (" up" if above == "from" else "")
    return ""


def _n(number: float) -> str:
    return str(number) if isinstance(number, int) else f"{number:g}"


def _follows(details: ErrorDetails, errors: Sequence[ErrorDetails]) -> bool:
    """Whether a list is reported as too short only because its items are invalid, which is reported already."""
    place = details["loc"]
    inside = (error["loc"] for error in errors if len(error["loc"]) > len(place))
    return details["type"] == "too_short" and any(location[: len(place)] == place for location in inside)


def _urgency(details: ErrorDetails) -> int:
    """Sort unknown keys first, because a misspelt key is often the cause of a missing key."""
    return 0 if details["type"] == "extra_forbidden" else 1


def field_problem(details: ErrorDetails, location: Location, model: type[BaseModel]) -> str:
    """Return the problem of a value in one sentence, with the nearest valid choice.

    Args:
        location: the location of the value in the validated data.
        model: the model of the validated data.
    """
    kind, context, value = details["type"], details.get("ctx", {}), details["input"]
    if kind == "extra_forbidden":
        return unknown_key(str(location[-1]), list(_model_at(model, location[:-1]).model_fields))
    if kind == "missing":
        return "is required"
    if kind in ("literal_error", "enum"):
        choices = str(context["expected"]).replace(" or ", ", ").replace("'", "").split(", ")
        close = " Write it without quotes." if value in choices else _close(value, choices)
        return f"must be one of {', '.join(choices)}{got(value)}.{close}"
    if kind in ("value_error", "assertion_error"):
        return str(context["error"])
    quotes = kind == "string_type" and not isinstance(value, (dict, list, tuple))
    return _of_kind(kind, context) + got(value) + (" (put it in quotes)" if quotes else "")


_NAME: Final = "^[A-Za-z0-9][A-Za-z0-9"


def _of_kind(kind: str, context: Mapping[str, Any]) -> str:
    fixed = {
        "string_type": "must be text",
        "bool_type": "must be true or false",
        "bool_parsing": "must be true or false",
        "int_type": "must be a whole number",
        "int_parsing": "must be a whole number",
        "int_from_float": "must be a whole number",
        "float_type": "must be a number",
        "float_parsing": "must be a number",
        "finite_number": "must be a finite number",
        **dict.fromkeys(("decimal_type", "decimal_parsing"), "must be a number"),
        "tuple_type": "must be a list",
        "model_type": "must be a mapping of keys to values",
        "model_attributes_type": "must be a mapping of keys to values",
        "mapping_type": "must be a mapping of keys to values",
        "dict_type": "must be a mapping of keys to values",
        **dict.fromkeys(_NO_DAY, "must be a day such as 2025-06-30"),
    }
    bounds = {
        "greater_than_equal": "must be at least {ge}",
        "greater_than": "must be more than {gt}",
        "less_than_equal": "must be at most {le}",
        "less_than": "must be less than {lt}",
        "decimal_max_digits": "must have at most {max_digits} digits",
        "decimal_max_places": "must have at most {decimal_places} digits after the point",
        "too_short": "must hold at least {min_length}",
        "string_too_short": "must have at least {min_length} character",
        "string_too_long": "must have at most {max_length} characters",
        "string_pattern_mismatch": "must match the pattern {pattern}",
    }
    if kind == "string_pattern_mismatch" and str(context["pattern"]).startswith(_NAME):
        return f"must consist of letters, digits, _ and - (pattern {context['pattern']})"
    return fixed.get(kind) or bounds.get(kind, f"is not usable ({kind})").format(**context)


def _close(value: Any, choices: list[str]) -> str:
    return did_you_mean(str(value), choices)


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel]:
    """Return the model that validates a location inside another model."""
    for step in location:
        if isinstance(step, str) and step in model.model_fields:
            model = _model_in(model.model_fields[step].annotation) or model
    return model


def _model_in(annotation: Any) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    models = (_model_in(part) for part in getattr(annotation, "__args__", ()))
    return next((model for model in models if model is not None), None)
