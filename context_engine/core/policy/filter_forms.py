"""The forms in which people write a filter (a mapping, a tree, a line of text), parsed into one."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Any, Final

from context_engine.core.models import And, Condition, Filter, FilterOp, Not, Or
from context_engine.errors import InvalidFilter, nearest

_DEEPEST: Final = 32
_MOST_CONDITIONS: Final = 1000
_LONGEST_SAID: Final = 200
_LISTS: Final = (FilterOp.IN, FilterOp.NOT_IN)
_ORDERING: Final = (FilterOp.GT, FilterOp.GTE, FilterOp.LT, FilterOp.LTE)
_NUMBERS: Final = ("tier", "authority_tier", "position")
_DATES: Final = ("date", "effective_from", "effective_to", "fetched_at")
_DAY: Final = re.compile(r"\d{4}-\d{2}-\d{2}")
_NUMBER: Final = re.compile(r"[+-]?\d+(\.\d+)?")
_BARE: Final = (FilterOp.EMPTY, FilterOp.NOT_EMPTY)
_SUFFIXES: Final = {
    "_not_contains": FilterOp.NOT_CONTAINS,
    "_startswith": FilterOp.STARTS_WITH,
    "_endswith": FilterOp.ENDS_WITH,
    "_contains": FilterOp.CONTAINS,
    "_empty": FilterOp.EMPTY,
    "_gte": FilterOp.GTE,
    "_lte": FilterOp.LTE,
    "_nin": FilterOp.NOT_IN,
    "_gt": FilterOp.GT,
    "_lt": FilterOp.LT,
    "_ne": FilterOp.NE,
    "_in": FilterOp.IN,
}
_SPELLINGS: Final = {
    FilterOp.EQ: ("=", "==", "is", "equals"),
    FilterOp.NE: ("!=", "≠", "<>", "is not", "not equals"),
    FilterOp.IN: ("is in",),
    FilterOp.NOT_IN: ("not in", "nin", "is not in"),
    FilterOp.GT: (">", "after"),
    FilterOp.GTE: (">=", "≥", "at least", "on or after"),
    FilterOp.LT: ("<", "before"),
    FilterOp.LTE: ("<=", "≤", "at most", "on or before"),
    FilterOp.CONTAINS: ("~",),
    FilterOp.NOT_CONTAINS: ("!~", "not contains", "does not contain"),
    FilterOp.STARTS_WITH: ("start with", "starts with", "startswith"),
    FilterOp.ENDS_WITH: ("end with", "ends with", "endswith"),
    FilterOp.EMPTY: ("is empty",),
    FilterOp.NOT_EMPTY: ("not empty", "is not empty", "exists"),
}
_OPS: Final = {spelling: op for op, spellings in _SPELLINGS.items() for spelling in (op.value, *spellings)}
_NAMES: Final = tuple(op.value for op in FilterOp)
_SYMBOLS: Final = sorted((name for name in _OPS if not name[0].isalpha()), key=len, reverse=True)
_WORDS: Final = sorted((name for name in _OPS if name[0].isalpha()), key=len, reverse=True)
_CLAUSE: Final = re.compile(
    r"\s*(?P<field>[\w.-]+)\s*"
    rf"(?:(?P<symbol>{'|'.join(map(re.escape, _SYMBOLS))})|(?<=\s)(?P<word>{'|'.join(_WORDS)})(?=\s|$))"
    r"\s*(?P<value>.*?)\s*",
    re.IGNORECASE | re.DOTALL,
)
_PARTS: Final = re.compile(r"""(?:[^;"]|"[^"]*"|")+""")
_QUOTED: Final = re.compile(r'"[^"]*"')
_ITEMS: Final = re.compile(r"""\s*(?:"([^"]*)"|([^,]+?))\s*(?:,|$)""")


def parse_filter(value: Any) -> Filter | None:
    """Parse a filter from any form that people write; return None for None and for an empty form.

    Args:
        value: a `Filter`; a mapping of fields to values, lists (membership) and suffixed fields
            (`year_gte`, `_gt _lte _lt _ne _in _nin _contains _not_contains _startswith _endswith _empty`), all of which
            must hold; a tree of {"and": [..]}, {"or": [..]}, {"not": ..} and {"field", "op", "value"}; a line of text
            (`version=3.2; date>=2025-01-01; doc_type in a,b; title~limits; owner is empty`, ";" is "and", a value
            with ; or , stands in double quotes); JSON text of a mapping or tree.
            `_in` and `_nin` are suffixes only before a list, `_empty` only before true or false.

    Raises:
        InvalidFilter: the form, a field, an operator or a value cannot be used, or there are more than 1000 conditions;
            the message names it and the allowed values.
    """
    if value is None or isinstance(value, Condition | And | Or | Not):
        return value
    if isinstance(value, str):
        return _bounded(_line(value))
    if isinstance(value, Mapping):
        return _bounded(_tree(value, 0)) if value else None
    raise InvalidFilter(f"a filter is a mapping or a line of text, got {type(value).__name__}")


def _bounded(filter: Filter | None) -> Filter | None:
    if filter is not None and _conditions(filter) > _MOST_CONDITIONS:
        raise InvalidFilter(
            f"the filter has more than {_MOST_CONDITIONS} conditions: use lists, as in 'doc_type in a,b'"
        )
    return filter


def _conditions(filter: Filter) -> int:
    if isinstance(filter, Condition):
        return 1
    return sum(map(_conditions, (filter.part,) if isinstance(filter, Not) else filter.parts))


def _shown(value: Any) -> str:
    """Return a value for a message, shortened: a filter's author decides how long it is."""
    text = repr(value)
    return text if len(text) <= _LONGEST_SAID else f"{text[:_LONGEST_SAID]} …"


def _line(text: str) -> Filter | None:
    if text.lstrip().startswith("{"):
        try:
            return parse_filter(json.loads(text))
        except ValueError as error:
            raise InvalidFilter(f"the filter looks like JSON but is not: {error}") from None
        except RecursionError:
            raise InvalidFilter(f"the filter is nested more than {_DEEPEST} deep") from None
    parts = [_clause(part) for part in _PARTS.findall(text) if part.strip()]
    return None if not parts else parts[0] if len(parts) == 1 else And(tuple(parts))


def _clause(text: str) -> Filter:
    clause = _CLAUSE.fullmatch(text)
    if clause is None:
        raise InvalidFilter(
            f"cannot read {_shown(text.strip())} as 'field operator value'. "
            f"Operators: {' '.join(_SYMBOLS)}, {', '.join(_NAMES)}."
        )
    op = _OPS[(clause["symbol"] or clause["word"]).casefold()]
    raw = clause["value"]
    if op in _BARE:
        if raw:
            raise InvalidFilter(f"{_shown(text.strip())}: {op.value} takes no value")
        return Condition(clause["field"], op)
    if op in _LISTS:
        items = [quoted or plain for quoted, plain in _ITEMS.findall(_unwrapped(raw))]
        return _condition(clause["field"], op, items)
    value = raw[1:-1] if len(raw) > 1 and raw[0] == raw[-1] == '"' else raw
    if not value:
        raise InvalidFilter(f"{_shown(text.strip())} has no value; write 'is empty' to ask for a missing field")
    if raw[0] in "=<>!~≠≤≥":
        raise InvalidFilter(
            f"{_shown(text.strip())}: unknown operator. Use one of {' '.join(_SYMBOLS)}, or quote the value."
        )
    return _condition(clause["field"], op, value)


def _unwrapped(text: str) -> str:
    """Return a list without the brackets around the whole list; the brackets in `4.2.1(a),4.2.1(b)` and `(a),(b)`
    stay.
    """
    if text[:1] + text[-1:] not in ("[]", "()"):
        return text
    depth = 0
    for place, char in enumerate(_QUOTED.sub(lambda quoted: " " * len(quoted[0]), text), start=1):
        depth += (char == text[0]) - (char == text[-1])
        if not depth:
            return text[1:-1] if place == len(text) else text
    return text


def _tree(node: Any, depth: int) -> Filter:
    if isinstance(node, Condition | And | Or | Not):
        return node
    if not isinstance(node, Mapping) or not node:
        raise InvalidFilter(f"a part of a filter is a mapping with something in it, got {_shown(node)}")
    if depth > _DEEPEST:
        raise InvalidFilter(f"the filter is nested more than {_DEEPEST} deep")
    keys = set(node)
    if keys & {"and", "or", "not"}:
        return _joined(node, depth)
    if "field" in keys and keys & {"op", "value"}:
        return _leaf(node)
    parts = tuple(_pair(key, value) for key, value in node.items())
    return parts[0] if len(parts) == 1 else And(parts)


def _joined(node: Mapping[Any, Any], depth: int) -> Filter:
    if len(node) != 1:
        raise InvalidFilter(
            f"'and', 'or' and 'not' must be alone in a mapping, got the keys {_shown(sorted(map(str, node)))}"
        )
    ((word, below),) = node.items()
    if word == "not":
        return Not(_tree(below, depth + 1))
    if isinstance(below, str | Mapping) or not isinstance(below, list | tuple):
        raise InvalidFilter(f"{word!r} takes a list of filters, got {type(below).__name__}")
    parts = tuple(_tree(part, depth + 1) for part in below)
    return And(parts) if word == "and" else Or(parts)


def _leaf(node: Mapping[Any, Any]) -> Filter:
    for key in node:
        if key not in ("field", "op", "value"):
            raise InvalidFilter(
                f"unknown key {_shown(key)} in a condition.{nearest(str(key), ('field', 'op', 'value'))}"
            )
    name = node.get("op", "eq")
    op = _OPS.get(" ".join(str(name).casefold().split()))
    if op is None:
        raise InvalidFilter(
            f"unknown operator {_shown(name)} for field {_shown(node['field'])}.{nearest(str(name), _NAMES)}"
        )
    return _condition(node["field"], op, node.get("value"))


def _pair(key: Any, value: Any) -> Filter:
    if isinstance(key, str):
        for suffix, op in _SUFFIXES.items():
            if key.endswith(suffix) and len(key) > len(suffix) and _fits(op, value):
                if op is FilterOp.EMPTY:
                    return Condition(key.removesuffix(suffix), op if value else FilterOp.NOT_EMPTY)
                return _condition(key.removesuffix(suffix), op, value)
    return _condition(key, FilterOp.EQ, value)


def _fits(op: FilterOp, value: Any) -> bool:
    if op in _LISTS:
        return isinstance(value, list | tuple | set | frozenset)
    return isinstance(value, bool) if op is FilterOp.EMPTY else True


def _condition(field: Any, op: FilterOp, value: Any) -> Condition:
    if not isinstance(field, str) or not field.strip():
        raise InvalidFilter(f"a field name is text, got {_shown(field)}")
    if op in _BARE:
        return Condition(field, op)
    if value is None and op in (FilterOp.EQ, FilterOp.NE):
        return Condition(field, FilterOp.EMPTY if op is FilterOp.EQ else FilterOp.NOT_EMPTY)
    if isinstance(value, list | tuple | set | frozenset):
        ops = {FilterOp.EQ: FilterOp.IN, FilterOp.NE: FilterOp.NOT_IN}
        op = ops.get(op, op)
        if op not in _LISTS:
            raise InvalidFilter(f"field {_shown(field)}: {op.value} takes one value, got a list")
        return Condition(field, op, tuple(_scalar(field, item) for item in value))
    if op in _LISTS:
        raise InvalidFilter(f"field {_shown(field)}: {op.value} takes a list, got {_shown(value)}")
    return Condition(field, op, _sensible(field, op, _scalar(field, value)))


def _sensible(field: str, op: FilterOp, value: Any) -> Any:
    """Refuse a value that no chunk can ever match: an impossible day, or a tier or date compared with a word."""
    text = value.strip() if isinstance(value, str) else ""
    if _DAY.fullmatch(text) and (op in _ORDERING or field in _DATES):
        try:
            date.fromisoformat(text)
        except ValueError:
            raise InvalidFilter(f"field {_shown(field)}: {text} is no day of the calendar") from None
    elif field in _NUMBERS and isinstance(value, str) and not _NUMBER.fullmatch(text):
        raise InvalidFilter(f"field {_shown(field)} is a number, got {_shown(value)}")
    elif field in _DATES and op in _ORDERING and isinstance(value, str) and not text[:4].isdigit():
        raise InvalidFilter(f"field {_shown(field)} is a date such as 2025-01-31, got {_shown(value)}")
    return value


def _scalar(field: str, value: Any) -> Any:
    if not isinstance(value, str | int | float | date) or (isinstance(value, float) and not math.isfinite(value)):
        raise InvalidFilter(
            f"field {_shown(field)}: a value is a text, a finite number, true, false or a date, got {_shown(value)}"
        )
    return value
