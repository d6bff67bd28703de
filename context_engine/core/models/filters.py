"""Filters of a search: conditions on a chunk's fields, joined by and, or, not.

`policy.filters` parses the forms people write and evaluates them. Sources apply what they can in their own query.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from enum import StrEnum
from typing import Any

from context_engine.errors import InvalidFilter


class FilterOp(StrEnum):
    """Comparison of a field with a value."""

    EQ = "eq"
    NE = "ne"
    IN = "in"
    NOT_IN = "not_in"
    GT = "gt"
    GTE = "gte"
    LT = "lt"
    LTE = "lte"
    CONTAINS = "contains"
    NOT_CONTAINS = "not_contains"
    STARTS_WITH = "starts_with"
    ENDS_WITH = "ends_with"
    EMPTY = "empty"
    NOT_EMPTY = "not_empty"


@dataclass(frozen=True, slots=True)
class Condition:
    """`field op value`; `value` is a scalar, a tuple for in and not_in, None for empty and not_empty.

    Raises:
        InvalidFilter: an unknown comparison; names such as `"eq"` are accepted.
    """

    field: str
    op: FilterOp
    value: Any = None

    def __post_init__(self) -> None:
        try:
            object.__setattr__(self, "op", FilterOp(self.op))
        except ValueError:
            raise InvalidFilter(f"filter: {self.op!r} is not a comparison: use one of {', '.join(FilterOp)}") from None


@dataclass(frozen=True, slots=True)
class And:
    """All parts hold; an empty And always holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    """At least one part holds; an empty Or never holds."""

    parts: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    """The part does not hold."""

    part: Filter


Filter = Condition | And | Or | Not


def filter_to_dict(condition: Filter | None) -> dict[str, Any] | None:
    """Return a filter as the tree that `policy.filters.parse_filter` reads back."""
    match condition:
        case None:
            return None
        case And(parts):
            return {"and": [filter_to_dict(part) for part in parts]}
        case Or(parts):
            return {"or": [filter_to_dict(part) for part in parts]}
        case Not(part):
            return {"not": filter_to_dict(part)}
        case Condition(field, op, value):
            plain = [_plain(element) for element in value] if isinstance(value, tuple) else _plain(value)
            return {"field": field, "op": op.value, "value": plain}


def _plain(value: Any) -> Any:
    return value.isoformat() if isinstance(value, date) else value
