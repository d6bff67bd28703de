"""JSON values as they come: what is no JSON to the letter but can be read is read, and reported.

A key that appears twice keeps both values, NaN, Infinity and numbers that no number type holds stay as their text, and
a lone surrogate, which is no character, becomes U+FFFD. What is nested deeper than MOST_DEPTH is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping
from typing import Any, Final, NamedTuple

MOST_DEPTH: Final = 64
_ODD: Final = re.compile(r"\\u[dD]|[eE]\+?\d{3}|\d{300}")
"""Where a surrogate, or a number that is no finite one, may stand."""
_SHOWN: Final = 40


class TooDeep(ValueError):
    """A value is nested deeper than MOST_DEPTH."""


class JsonValue(NamedTuple):
    """A value, the offset behind it, and what was repaired in it."""

    value: Any
    end: int
    repairs: tuple[str, ...] = ()


class JsonReader:
    """Reads one value at a time; not for use in several threads at once."""

    def __init__(self) -> None:
        self._repairs: dict[str, None] = {}
        self._plain = json.JSONDecoder(strict=False, object_pairs_hook=self._object, parse_constant=self._constant)
        self._careful = json.JSONDecoder(
            strict=False,
            object_pairs_hook=self._object,
            parse_constant=self._constant,
            parse_int=self._whole,
            parse_float=self._real,
        )

    def read(self, text: str, at: int = 0) -> JsonValue:
        """Return the value that begins at an offset.

        Raises:
            json.JSONDecodeError: there is none.
            TooDeep: it is nested too deep.
        """
        self._repairs.clear()
        try:
            value, end = self._decoded(text, at)
        except RecursionError:
            raise TooDeep from None
        if text.count("{", at, end) + text.count("[", at, end) > MOST_DEPTH and _deeper(value):
            raise TooDeep
        return JsonValue(value, end, tuple(self._repairs))

    def _decoded(self, text: str, at: int) -> tuple[Any, int]:
        try:
            value, end = self._plain.raw_decode(text, at)
            if not _ODD.search(text, at, end):
                return value, end
        except json.JSONDecodeError:
            raise
        except ValueError:  # more digits than Python makes a number of
            pass
        self._repairs.clear()
        value, end = self._careful.raw_decode(text, at)
        return self._valid(value), end

    def _object(self, pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        out = dict(pairs)
        if len(out) == len(pairs):
            return out
        out = {}
        for key, value in pairs:
            name, number = key, 1
            while name in out:
                number += 1
                name = f"{key} ({number})"
            if name != key:
                self._repairs[f"the key {key[:_SHOWN]!r} appears twice in an object: both values are kept"] = None
            out[name] = value
        return out

    def _constant(self, name: str) -> str:
        self._repairs[f"{name} is no JSON number: kept as text"] = None
        return name

    def _whole(self, digits: str) -> int | str:
        try:
            return int(digits)
        except ValueError:
            return self._long(digits)

    def _real(self, digits: str) -> float | str:
        number = float(digits)
        return number if math.isfinite(number) else self._long(digits)

    def _long(self, digits: str) -> str:
        shown = digits if len(digits) <= _SHOWN else f"{digits[:_SHOWN]}…"
        self._repairs[f"{shown} is too large for a number: kept as text"] = None
        return digits

    def _valid(self, value: Any) -> Any:
        """Return a value in which every text can be encoded."""
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping):
            return {self._text(key): self._valid(inner) for key, inner in value.items()}
        if isinstance(value, list):
            return [self._valid(inner) for inner in value]
        return value

    def _text(self, text: str) -> str:
        whole = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if whole != text:
            self._repairs["a lone surrogate (\\ud800-\\udfff), which is no character, became U+FFFD"] = None
        return whole


def _deeper(value: Any) -> bool:
    """Whether a value is nested deeper than MOST_DEPTH; level by level, so that no depth is too much."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [
            inner
            for one in level
            if isinstance(one, (dict, list))
            for inner in (one.values() if isinstance(one, dict) else one)
        ]
        if not level:
            return False
    return True
