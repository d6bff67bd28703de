"""Dify's metadata conditions with their eighteen operators, parsed into a filter of the engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from math import isfinite
from typing import Any, Final

from context_engine.apps.dify.dify_json import DEEPEST, plain_text
from context_engine.core.models import And, Condition, Filter, FilterOp, Or, to_moment
from context_engine.errors import InvalidFilter, nearest

OPERATORS: Final = {
    "contains": FilterOp.CONTAINS,
    "not contains": FilterOp.NOT_CONTAINS,
    "start with": FilterOp.STARTS_WITH,
    "end with": FilterOp.ENDS_WITH,
    "is": FilterOp.EQ,
    "is not": FilterOp.NE,
    "empty": FilterOp.EMPTY,
    "not empty": FilterOp.NOT_EMPTY,
    "in": FilterOp.IN,
    "not in": FilterOp.NOT_IN,
    "=": FilterOp.EQ,
    "≠": FilterOp.NE,
    ">": FilterOp.GT,
    "<": FilterOp.LT,
    "≥": FilterOp.GTE,
    "≤": FilterOp.LTE,
    "before": FilterOp.LT,
    "after": FilterOp.GT,
}
"""Dify's operators and the engine's."""

_MOST_BITS: Final = 64
_DATES: Final = ("before", "after")
_BARE: Final = (FilterOp.EMPTY, FilterOp.NOT_EMPTY)
_LISTS: Final = (FilterOp.IN, FilterOp.NOT_IN)
_JOINS: Final[Mapping[str, Callable[[tuple[Filter, ...]], Filter]]] = {"and": And, "or": Or}


def read_conditions(value: Any) -> Filter | None:
    """Return the filter of a `metadata_condition`, or None if it has no condition.

    A condition that Dify itself would ignore (no value, or a list instead of one value) is refused: it may exclude
    text that the reader must not see.

    Raises:
        InvalidFilter: an invalid part; the message names it and what is allowed.
    """
    return _group(value, "metadata_condition", DEEPEST)


def _group(value: Any, where: str, levels: int) -> Filter | None:
    """Return the filter of a group of conditions, which may contain groups.

    Args:
        value: `logical_operator` and `conditions`.
        where: its position, for messages.
        levels: of nested groups that are still allowed.
    """
    if value is None:
        return None
    if not isinstance(value, Mapping):
        raise InvalidFilter(f"{where} must be an object, got {type(value).__name__}")
    conditions = value.get("conditions")
    if conditions is None:
        return None
    if not isinstance(conditions, list):
        raise InvalidFilter(f"{where}.conditions must be a list, got {type(conditions).__name__}")
    if not levels:
        raise InvalidFilter(f"{where} is nested more than {DEEPEST} levels deep")
    operator = value.get("logical_operator")
    join = "and" if operator is None or operator == "" else operator.casefold() if isinstance(operator, str) else ""
    if join not in _JOINS:
        raise InvalidFilter(f"{where}.logical_operator must be 'and' or 'or', got {str(operator)[:40]!r}")
    filters = (
        _part(condition, f"{where}, condition {place}", levels - 1)
        for place, condition in enumerate(conditions, start=1)
    )
    parts = tuple(part for part in filters if part is not None)
    if len(parts) < 2:
        return parts[0] if parts else None
    return _JOINS[join](parts)


def _part(condition: Any, where: str, levels: int) -> Filter | None:
    if isinstance(condition, Mapping) and "conditions" in condition and "comparison_operator" not in condition:
        return _group(condition, where, levels)
    try:
        return _condition(condition)
    except InvalidFilter as error:
        raise InvalidFilter(f"{where}: {error}") from None


def _condition(condition: Any) -> Filter:
    if not isinstance(condition, Mapping):
        raise InvalidFilter(f"a condition must be an object, got {type(condition).__name__}")
    name, word, value = condition.get("name"), condition.get("comparison_operator"), condition.get("value")
    if isinstance(name, list) and len(name) == 1:
        name = name[0]
    if not isinstance(name, str) or not name.strip() or not _usable(name):
        raise InvalidFilter("it has no 'name' that is text")
    op = OPERATORS.get(word) if isinstance(word, str) else None
    if op is None:
        shown = str(word)[:40]
        raise InvalidFilter(
            f"unknown operator {shown if word is None else repr(shown)} for {name!r}.{nearest(shown, OPERATORS)}"
        )
    if op in _BARE:
        return Condition(name, op)
    if op in _LISTS:
        return Condition(name, op, _listed(name, value))
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise InvalidFilter(f"{name!r} {word}: the value must be a text or a number, got {type(value).__name__}")
    if not _usable(value):
        raise InvalidFilter(f"{name!r} {word}: the value is not a comparable number or text")
    if word in _DATES:
        return _dated(name, op, value)
    return Condition(name, op, value)


def _listed(name: str, value: Any) -> tuple[Any, ...]:
    if isinstance(value, str):
        value = [part.strip() for part in value.split(",")]
    if not isinstance(value, list) or not all(isinstance(item, str | int | float) and _usable(item) for item in value):
        raise InvalidFilter(f"{name!r}: 'in' takes a list, or texts joined by commas, got {type(value).__name__}")
    return tuple(item for item in value if item != "")


def _usable(value: str | int | float) -> bool:
    """Return whether a value can be compared and serialised: UTF-8, finite, of at most 64 bits."""
    if isinstance(value, str):
        return "\x00" not in value and plain_text(value) == value
    return isfinite(value) if isinstance(value, float) else value.bit_length() <= _MOST_BITS


def _dated(name: str, op: FilterOp, value: str | int | float) -> Filter:
    """Return a date condition in both forms: Dify keeps times as unix seconds, our own dates are ISO."""
    text = value.strip() if isinstance(value, str) else value
    seconds = _number(text)
    moment = to_moment(seconds if seconds is not None else text)
    if moment is None:
        raise InvalidFilter(
            f"{name!r}: {str(value)[:40]!r} is not a date: give unix seconds, or a date such as 2025-06-30"
        )
    iso = moment.isoformat() if moment != _midnight(moment) else moment.date().isoformat()
    return Or((Condition(name, op, iso), Condition(name, op, moment.timestamp())))


def _number(value: Any) -> float | None:
    try:
        return float(value)
    except (TypeError, ValueError):
        return None


def _midnight(moment: datetime) -> datetime:
    return moment.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
