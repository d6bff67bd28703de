"""Sanitising of foreign text and metadata, so that every output can encode them.

Metadata comes from foreign documents, servers and functions. A lone surrogate cannot be encoded, a value nested
900 deep cannot be written as JSON, a cycle never ends. Valid values are returned unchanged, as the same object.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final

MOST_DEPTH: Final = 32
"""Most levels of mappings and lists in a chunk's metadata, counting the metadata itself."""
MOST_VALUES: Final = 20_000
"""Most values in a chunk's metadata, nested ones included."""
MOST_CHARACTERS: Final = 1_000_000
"""Most characters in a chunk's metadata, keys and texts together."""

_MOST_BITS: Final = 1023
"""Most bits of a whole number: a larger one overflows a float, as which most JSON readers take it."""
_NOT_TEXT: Final = re.compile("[\x00\ud800-\udfff]")
_ATOMS: Final = frozenset((bool, float, type(None), date))


def is_valid_text(text: str) -> bool:
    """Return whether a text is valid Unicode without NUL."""
    if "\x00" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def sanitized_text(text: str) -> str:
    """Return the text with U+FFFD for every lone surrogate and NUL; its length does not change."""
    return text if is_valid_text(text) else _NOT_TEXT.sub("\ufffd", text)


def sanitized_id(text: str) -> str:
    r"""Return an id as valid text that stays distinct: a lone surrogate as `\udXXX`, NUL as `\x00`."""
    if is_valid_text(text):
        return text
    return text.replace("\x00", r"\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def sanitized_mapping(
    mapping: Mapping[Any, Any], *, most_values: int = MOST_VALUES, most_characters: int = MOST_CHARACTERS
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a mapping of valid values, and the changes made, each as a clause about the mapping.

    Invalid characters are replaced, keys become text, whole numbers over 300 digits become null. Dates, moments, NaN
    and the infinities stay (every output writes the last two as null). Any other object becomes its text. Values
    deeper than `MOST_DEPTH` or beyond the limits are left out.

    Args:
        mapping: never modified; returned itself if valid.
        most_values, most_characters: limits for the whole mapping.
    """
    try:
        if isinstance(mapping, dict) and _size(mapping, 1, most_values) <= most_characters:
            return mapping, ()
    except _Invalid:
        pass
    copy = _Copy(most_values, most_characters)
    return copy.mapping(mapping, 1), tuple(copy.changes)


class _Invalid(Exception):
    """A value that must be changed."""


def _size(value: Any, depth: int, most: int) -> int:
    """Return the characters and values of valid plain data; raise `_Invalid` for anything else."""
    kind = type(value)
    if kind is str:
        if not is_valid_text(value):
            raise _Invalid
        return len(value)
    if kind in _ATOMS:
        return 1
    if kind is int:
        if value.bit_length() > _MOST_BITS:
            raise _Invalid
        return 1
    if depth > MOST_DEPTH or kind not in (dict, list) or len(value) > most:
        raise _Invalid
    if kind is list:
        return len(value) + sum(_size(element, depth + 1, most) for element in value)
    for key in value:
        if type(key) is not str:
            raise _Invalid
    return sum(_size(key, depth, most) + _size(element, depth + 1, most) for key, element in value.items())


class _Copy:
    """Builds a sanitised copy; the keys of `changes` are the changes in order, each once."""

    def __init__(self, values: int, characters: int) -> None:
        self.changes: dict[str, None] = {}
        self._values, self._characters = values, characters

    def mapping(self, source: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for raw_key, value in source.items():
            if self._full():
                break
            key = self._text(raw_key if isinstance(raw_key, str) else self._str(raw_key))
            if key in out:
                self._note("has two keys with the same text, of which the first is kept")
                continue
            out[key] = self.value(value, depth + 1)
        return out

    def value(self, value: Any, depth: int) -> Any:
        self._values -= 1
        if value is None or isinstance(value, bool | date):
            return value
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, Mapping | list | tuple | set | frozenset):
            return self._nested(value, depth)
        if hasattr(value, "tolist"):  # a number or an array of numpy
            return self.value(value.tolist(), depth)
        if isinstance(value, Real | Decimal):
            return self._number(value)
        self._note(f"holds a {type(value).__name__}, which was converted to text")
        return self._text(self._str(value)[:1000])

    def _nested(self, value: Any, depth: int) -> Any:
        if depth > MOST_DEPTH:
            self._note(f"is nested deeper than {MOST_DEPTH} levels: the rest is left out")
            return None
        if isinstance(value, Mapping):
            return self.mapping(value, depth)
        ordered = sorted(value, key=self._str) if isinstance(value, set | frozenset) else value
        return list(self._each(ordered, depth + 1))

    def _each(self, values: Iterable[Any], depth: int) -> Iterable[Any]:
        for value in values:
            if self._full():
                return
            yield self.value(value, depth)

    def _number(self, value: Any) -> int | float | None:
        try:
            number = int(value) if isinstance(value, Integral) else float(value)
            if isinstance(number, float) or number.bit_length() <= _MOST_BITS:
                return number
        except (OverflowError, ValueError):  # too large for a float
            pass
        self._note("holds a number of over 300 digits, which counts as absent")
        return None

    def _text(self, text: str) -> str:
        if not is_valid_text(text):
            self._note("holds characters that are not valid Unicode, or NUL: they were replaced by U+FFFD")
            text = sanitized_text(text)
        if len(text) > self._characters:
            self._full_of_characters()
            text = text[: max(self._characters, 0)]
        self._characters -= len(text)
        return text

    def _full(self) -> bool:
        if self._values > 0 and self._characters > 0:
            return False
        self._full_of_characters()
        return True

    def _full_of_characters(self) -> None:
        self._note("is too large: the rest is left out")

    def _str(self, value: Any) -> str:
        try:
            return str(value)
        except Exception:  # noqa: BLE001  `str` of a foreign object may do anything
            return type(value).__name__

    def _note(self, change: str) -> None:
        self.changes[change] = None
