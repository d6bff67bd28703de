"""JSON that restores exactly the values written, where their types are not known beforehand.

JSON has no dates, datetimes, tuples, sets, NaN and infinities. Each is written as an object with one key that begins
with "$". A mapping with such keys of its own, or with keys that are not texts, is written as its pairs.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from datetime import date, datetime
from math import isfinite
from typing import Any, Final

_SCALARS: Final = frozenset((str, int, bool, type(None)))
_TEXT: Final = frozenset((str,))
_MARK: Final = "$"
_BETWEEN: Final = "\x00 between two values \x00"  # separates values that are encoded together
_ENCODER: Final = json.JSONEncoder(ensure_ascii=False, check_circular=False, allow_nan=False, separators=(",", ":"))
_BETWEEN_JSON: Final = _ENCODER.encode(_BETWEEN)


class Unreadable(ValueError):
    """The data is not what this version writes; the message says what is wrong."""


def json_bytes(value: Any) -> bytes:
    """Return compact JSON as valid UTF-8, whatever texts it contains.

    Args:
        value: of texts, finite numbers, booleans, None, lists or tuples, and dicts with text keys.

    Raises:
        ValueError: a number is not finite.
    """
    # A lone surrogate becomes \\udXXX, its JSON escape.
    return _ENCODER.encode(value).encode("utf-8", "backslashreplace")


def json_bytes_each(values: Sequence[Any]) -> list[bytes]:
    """Return `json_bytes` of each value; one call for all costs half as much."""
    if not values:
        return []
    parts = _ENCODER.encode([item for value in values for item in (_BETWEEN, value)])[1:-1].split(_BETWEEN_JSON)[1:]
    if len(parts) != len(values):  # a value contains the separator
        return [json_bytes(value) for value in values]
    return [part.strip(",").encode("utf-8", "backslashreplace") for part in parts]


def read_json(data: bytes | str) -> dict[str, Any]:
    """Parse a JSON object.

    Raises:
        Unreadable: it is not JSON, or not an object.
    """
    try:
        value = json.loads(data)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"it is not JSON: {error}") from None
    if not isinstance(value, dict):
        raise Unreadable(f"an object was expected, not a {type(value).__name__}")
    return value


def tagged(value: Any) -> Any:
    """Return a JSON value from which `untagged` restores the value; a value of an unknown type becomes its text.

    >>> tagged({"day": date(2026, 3, 2), "pair": (1, 2)})
    {'day': {'$date': '2026-03-02'}, 'pair': {'$tuple': [1, 2]}}
    """
    kind = type(value)
    if kind in _SCALARS:
        return value
    if kind is float:
        return value if isfinite(value) else {"$number": repr(value)}
    if kind is list:
        return value if _SCALARS.issuperset(map(type, value)) else [tagged(item) for item in value]
    if kind is dict or isinstance(value, Mapping):
        return _tagged_mapping(value)
    return _tagged_object(value)


def _tagged_mapping(mapping: Mapping[Any, Any]) -> dict[str, Any]:
    if not _TEXT.issuperset(map(type, mapping)) or _MARK in "".join(mapping):
        return {"$pairs": [[tagged(key), tagged(item)] for key, item in mapping.items()]}
    if type(mapping) is dict and _SCALARS.issuperset(map(type, mapping.values())):
        return mapping
    return {key: item if type(item) in _SCALARS else tagged(item) for key, item in mapping.items()}


def _tagged_object(value: Any) -> Any:
    if isinstance(value, str):
        return str(value)
    if isinstance(value, datetime):
        return {"$moment": value.isoformat()}
    if isinstance(value, date):
        return {"$date": value.isoformat()}
    if isinstance(value, tuple):
        return {"$tuple": [tagged(item) for item in value]}
    if isinstance(value, AbstractSet):
        return {"$set": sorted((tagged(item) for item in value), key=repr)}
    if isinstance(value, int):
        return int(value)
    if isinstance(value, float):
        return tagged(float(value))
    return [tagged(item) for item in value] if isinstance(value, Sequence) else str(value)


def untagged(value: Any) -> Any:
    """Restore what `tagged` was given.

    Raises:
        Unreadable: an object has an unknown tag.
    """
    if isinstance(value, list):
        return [untagged(item) for item in value]
    if not isinstance(value, dict):
        return value
    mark = next(iter(value), "")
    if not mark.startswith(_MARK):
        return {key: untagged(item) for key, item in value.items()}
    if len(value) != 1 or mark not in _READ:
        raise Unreadable(f"{mark!r} is no tag of this version")
    try:
        return _READ[mark](value[mark])
    except (TypeError, ValueError) as error:
        raise Unreadable(f"{mark}: {error}") from None


_READ: Final[Mapping[str, Callable[[Any], Any]]] = {
    "$number": float,
    "$moment": datetime.fromisoformat,
    "$date": date.fromisoformat,
    "$tuple": lambda parts: tuple(untagged(part) for part in parts),
    "$set": lambda parts: {untagged(part) for part in parts},
    "$pairs": lambda pairs: {untagged(key): untagged(item) for key, item in pairs},
}
