"""Evaluate filters: the fields of a chunk that a filter sees, and whether the chunk matches.

The comparison law, in this order:

- A missing field (absent, None) fails every comparison except `empty`, `ne`, `not_in` and `not_contains`, which hold.
- `ne`, `not_in` and `not_contains` are the exact opposites of `eq`, `in` and `contains`.
- A field that holds a list matches if any member does.
- Two numbers, or a number and a text that reads as a number, compare as numbers. True and False are not numbers.
- Two dates compare as dates; a date and a moment by their day; a moment without an offset is UTC. A text counts as a
  date when it is ISO with dashes (`2025-06-30`, `2025-06-30T12:00Z`). A bare year is a number, never a date.
- For `gt`, `gte`, `lt` and `lte`, two texts that read as numbers compare as numbers, other texts alphabetically.
- `version` and `document_version` compare without the letter or word before the number: "v3.2" is "3.2".
- Otherwise equality, containment, start and end compare casefolded texts; an order between different kinds is False.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Mapping
from datetime import date, datetime
from typing import Any, Final

from context_engine.core.models import (
    And,
    Chunk,
    Classification,
    Condition,
    Filter,
    FilterOp,
    Not,
    Or,
    SourceType,
    to_moment,
)
from context_engine.core.policy.filter_forms import parse_filter
from context_engine.core.text import bare_version

__all__ = ["ALWAYS_KNOWN", "VERSION_FIELDS", "chunk_fields", "matches", "named_fields", "own_fields", "parse_filter"]
_DATE: Final = re.compile(r"\d{4}-\d{2}-\d{2}(?:[T ].+)?")
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?", re.IGNORECASE)
_MOST_DIGITS: Final = 300  # Python reads no whole number of thousands of digits; a float takes what is beyond any sense
VERSION_FIELDS: Final = ("version", "document_version")
_NOT_FILTERED: Final = frozenset(
    (
        *("content", "scores", "span", "fetched_at_basis", "metadata", "extra"),
        *("source_id", "source_type", "authority_tier", "trust_class", "classification"),  # the manifest decides
    )
)
_OWN: Final = tuple(name for name in Chunk._fields if name not in _NOT_FILTERED)
ALWAYS_KNOWN: Final = frozenset(
    (*_OWN, "version", "source_id", "source", "source_type", "tier", "authority_tier", "classification", "domain")
)
"""Fields that a filter may name whatever the documents carry: those of a chunk, and what is known of its source."""
_ORDERS: Final[dict[FilterOp, Callable[[Any, Any], bool]]] = {
    FilterOp.GT: operator.gt,
    FilterOp.GTE: operator.ge,
    FilterOp.LT: operator.lt,
    FilterOp.LTE: operator.le,
}
_OPPOSITE: Final = {
    FilterOp.NE: FilterOp.EQ,
    FilterOp.NOT_IN: FilterOp.IN,
    FilterOp.NOT_CONTAINS: FilterOp.CONTAINS,
    FilterOp.NOT_EMPTY: FilterOp.EMPTY,
}


def own_fields(chunk: Chunk) -> dict[str, Any]:
    """Return the fields of the chunk itself: its metadata, then the fields of `Chunk` that have a value.

    A field of `Chunk` hides metadata of the same name. `version` is `document_version`.
    """
    fields = dict(chunk.metadata)
    for name in _OWN:
        value = getattr(chunk, name)
        if value not in (None, (), ""):
            fields[name] = value
    if chunk.document_version:
        fields["version"] = chunk.document_version
    return fields


def chunk_fields(
    chunk: Chunk,
    *,
    source_id: str,
    source_type: SourceType | str,
    tier: int,
    classification: Classification | str,
    domain: str | None = None,
) -> dict[str, Any]:
    """Return all fields of a candidate that a filter sees: `own_fields`, then those of its source.

    Args:
        source_id: also seen as `source`.
        source_type, tier, classification: after the manifest's ceiling; `tier` is also seen as `authority_tier`.
        domain: the domain searched, if it is to be seen.
    """
    fields = own_fields(chunk)
    fields |= {"source_id": source_id, "source": source_id, "source_type": str(source_type)}
    fields |= {"tier": tier, "authority_tier": tier, "classification": str(classification)}
    if domain is not None:
        fields["domain"] = domain
    return fields


def named_fields(filter: Filter) -> tuple[str, ...]:
    """Return the distinct fields that a filter names, in its order."""
    if isinstance(filter, Condition):
        return (filter.field,)
    parts = (filter.part,) if isinstance(filter, Not) else filter.parts
    return tuple(dict.fromkeys(name for part in parts for name in named_fields(part)))


def matches(filter: Filter | None, fields: Mapping[str, Any]) -> bool:
    """Return whether fields match a filter by the law above; no filter matches everything."""
    if filter is None:
        return True
    if isinstance(filter, Condition):
        have, want = fields.get(filter.field), filter.value
        if filter.field in VERSION_FIELDS:
            have, want = _bare_versions(have), _bare_versions(want)
        return _holds(filter.op, have, want)
    if isinstance(filter, And):
        return all(matches(part, fields) for part in filter.parts)
    if isinstance(filter, Or):
        return any(matches(part, fields) for part in filter.parts)
    return not matches(filter.part, fields)


def _bare_versions(value: Any) -> Any:
    if isinstance(value, list | tuple | set | frozenset):
        return [_bare_versions(item) for item in value]
    return bare_version(value) if isinstance(value, str) else value


def _holds(op: FilterOp, have: Any, want: Any) -> bool:
    if op in _OPPOSITE:
        return not _holds(_OPPOSITE[op], have, want)
    if op is FilterOp.EMPTY:
        return have is None or (isinstance(have, str | list | tuple | set | frozenset | Mapping) and not have)
    if have is None or isinstance(have, Mapping):
        return False
    if isinstance(have, list | tuple | set | frozenset):
        return any(_holds(op, member, want) for member in have)
    if op is FilterOp.IN:
        return any(_equal(have, wanted) for wanted in want)
    if op is FilterOp.EQ:
        return _equal(have, want)
    if op in _ORDERS:
        return _ordered(_ORDERS[op], have, want)
    return _within(op, _text(have), _text(want))


def _within(op: FilterOp, have: str, want: str) -> bool:
    if op is FilterOp.CONTAINS:
        return want in have
    return have.startswith(want) if op is FilterOp.STARTS_WITH else have.endswith(want)


def _equal(have: Any, want: Any) -> bool:
    if _is_number(have) or _is_number(want):
        left, right = _number(have), _number(want)
        return left is not None and left == right
    dates = _dates(have, want)
    return dates[0] == dates[1] if dates else _text(have) == _text(want)


def _ordered(compare: Callable[[Any, Any], bool], have: Any, want: Any) -> bool:
    left, right = _number(have), _number(want)
    if left is not None and right is not None:
        return compare(left, right)
    if dates := _dates(have, want):
        return compare(*dates)
    if isinstance(have, str) and isinstance(want, str) and not (_date(have) or _date(want)):
        return compare(have.casefold(), want.casefold())
    return False


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _number(value: Any) -> int | float | None:
    if _is_number(value):
        number: int | float = value
        return number
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        text = value.strip()
        return int(text) if text.lstrip("+-").isdecimal() and len(text) <= _MOST_DIGITS else float(text)
    return None


def _dates(have: Any, want: Any) -> tuple[date, date] | None:
    """Return both values as dates, or as moments in UTC if both have a time; None if one of them is neither."""
    left, right = _date(have), _date(want)
    if left is None or right is None:
        return None
    if isinstance(left, datetime) and isinstance(right, datetime):
        return left, right
    return _day(left), _day(right)


def _date(value: Any) -> date | None:
    if isinstance(value, str) and _DATE.fullmatch(value.strip()):
        text = value.strip()
        try:
            value = date.fromisoformat(text) if len(text) == 10 else datetime.fromisoformat(text)
        except ValueError:
            return None
    return to_moment(value) if isinstance(value, datetime) else value if isinstance(value, date) else None


def _day(moment: date) -> date:
    return moment.date() if isinstance(moment, datetime) else moment


def _text(value: Any) -> str:
    return str(value.isoformat() if isinstance(value, date) else value).casefold()
