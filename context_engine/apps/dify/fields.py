"""Fields of a form, whatever Dify hands over for them: each reader takes what can be used, and refuses by name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from context_engine.apps.dify.credentials import read_flag
from context_engine.apps.dify.plain import plain_text, unusable
from context_engine.errors import InvalidRequest, nearest


def query_field(fields: Mapping[str, Any]) -> str:
    """Return the question, "" where it is absent.

    Raises:
        InvalidRequest: no text.
    """
    value = fields.get("query")
    return "" if value is None else checked_type(value, "query", str, "a text")


def text_field(fields: Mapping[str, Any], name: str) -> str | None:
    """Return a field's text, None where it is absent or blank; a number counts as text.

    Raises:
        InvalidRequest: neither text nor number, or not UTF-8.
    """
    value = fields.get(name)
    if value is None:
        return None
    problem = unusable(value)
    if problem is not None:
        raise InvalidRequest(f"{name} {problem}")
    text = str(checked_type(value, name, str | int | float, "a text")).strip()
    if "\x00" in text or plain_text(text) != text:
        raise InvalidRequest(f"{name} holds binary data (NUL or lone surrogates): send UTF-8 text")
    return text or None


def checked_type(value: Any, name: str, kind: Any, said: str) -> Any:
    """Return a value if it is of a kind; a bool is of none.

    Raises:
        InvalidRequest: it is of another.
    """
    if isinstance(value, bool) or not isinstance(value, kind):
        raise InvalidRequest(f"{name} must be {said}, got {type(value).__name__}")
    return value


def flag_field(fields: Mapping[str, Any], name: str, otherwise: bool) -> bool:
    """Return whether a box is ticked, `otherwise` where the field is absent or blank.

    Raises:
        InvalidRequest: neither yes nor no.
    """
    value = fields.get(name)
    if isinstance(value, list | Mapping):
        raise InvalidRequest(f"{name} must be true or false, got {type(value).__name__}")
    return read_flag(value, otherwise)


def whole_field(fields: Mapping[str, Any], name: str, least: int, most: int) -> int | None:
    """Return a field's whole number, None where it is absent or blank.

    Raises:
        InvalidRequest: no whole number, or out of range.
    """
    value = fields.get(name)
    if isinstance(value, bool):
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}, got {value!r}")
    text = text_field(fields, name)
    if text is None:
        return None
    try:
        number = float(text)
    except ValueError:
        number = float("nan")
    if not (number.is_integer() and least <= number <= most):
        raise InvalidRequest(f"{name} must be a whole number from {least} to {most}, got {text[:40]!r}")
    return int(number)


def choice_field(fields: Mapping[str, Any], name: str, allowed: tuple[str, ...], otherwise: str) -> str:
    """Return a field's choice, `otherwise` where it is absent or blank.

    Raises:
        InvalidRequest: there is no such choice; names the nearest.
    """
    value = text_field(fields, name) or otherwise
    if value not in allowed:
        raise InvalidRequest(f"{name} has no choice {value[:40]!r}.{nearest(value, allowed)}")
    return value
