"""Where two published forms first differ."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple


class _Absent:
    """The value of what is not there."""

    def __repr__(self) -> str:
        return "(absent)"


_ABSENT: Final = _Absent()


class Difference(NamedTuple):
    """The first place at which two values differ.

    Attributes:
        path: e.g. `chunks[2].final`.
        was, now: the values there, None where there is none.
    """

    path: str
    was: Any
    now: Any


def first_difference(was: Any, now: Any, path: str = "") -> Difference | None:
    """Return the first difference of two JSON values, None where they are equal.

    >>> first_difference({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})
    Difference(path='a[1].b', was=2, now=3)
    """
    if isinstance(was, Mapping) and isinstance(now, Mapping):
        names = [*was, *(name for name in now if name not in was)]
        pairs = [(f"{path}.{name}" if path else str(name), name) for name in names]
        found = (first_difference(was.get(name, _ABSENT), now.get(name, _ABSENT), where) for where, name in pairs)
        return next((one for one in found if one is not None), None)
    if isinstance(was, list) and isinstance(now, list):
        longest = range(max(len(was), len(now)))
        found = (first_difference(_at(was, place), _at(now, place), f"{path}[{place}]") for place in longest)
        return next((one for one in found if one is not None), None)
    same = type(was) is type(now) and was == now
    return None if same else Difference(path, _shown(was), _shown(now))


def _at(values: list[Any], place: int) -> Any:
    return values[place] if place < len(values) else _ABSENT


def _shown(value: Any) -> Any:
    return None if value is _ABSENT else value
