"""What others hand over, made such that every output can hold it: valid text, and values of bounded depth and size.

Metadata comes from documents, servers and functions that nobody here wrote. A lone surrogate cannot be encoded, a value
nested 900 deep cannot be written as JSON, a ring never ends. What is sound is handed back as it is.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from datetime import date
from decimal import Decimal
from numbers import Integral, Real
from typing import Any, Final

__all__ = ["is_sound_text", "sound_id", "sound_mapping", "sound_text"]

MOST_DEPTH: Final = 32
"""Most levels of mappings and lists in the metadata of a chunk, itself the first."""
MOST_VALUES: Final = 20_000
"""Most values in it, those of mappings and lists within it among them."""
MOST_CHARACTERS: Final = 1_000_000
"""Most characters in it, keys and texts together."""

_MOST_BITS: Final = 1023
"""Most bits of a whole number; a larger one is no number of JSON, and Python refuses to write it."""
_UNSOUND: Final = re.compile("[\x00\ud800-\udfff]")
_ATOMS: Final = frozenset((bool, float, type(None), date))


def is_sound_text(text: str) -> bool:
    """Return whether a text is valid Unicode without NUL."""
    if "\x00" in text:
        return False
    try:
        return text.isascii() or bool(text.encode())
    except UnicodeEncodeError:
        return False


def sound_text(text: str) -> str:
    """Return the text with U+FFFD for every lone surrogate and NUL; it stays as long as it was."""
    return text if is_sound_text(text) else _UNSOUND.sub("\ufffd", text)


def sound_id(text: str) -> str:
    r"""Return an id as valid text that still tells it from others: a lone surrogate as `\udXXX`, NUL as `\x00`."""
    if is_sound_text(text):
        return text
    return text.replace("\x00", r"\x00").encode("utf-8", "backslashreplace").decode("utf-8")


def sound_mapping(
    given: Mapping[Any, Any], *, most_values: int = MOST_VALUES, most_characters: int = MOST_CHARACTERS
) -> tuple[Mapping[str, Any], tuple[str, ...]]:
    """Return a mapping of sound values, and what was changed in it, each a clause about the mapping.

    Texts are valid, keys text, whole numbers not over 300 digits; dates and moments stay, NaN and the infinities too,
    which are null wherever they are written; any other object is its text. What lies deeper than `MOST_DEPTH`, or
    beyond the limits, is left out.

    Args:
        given: never changed; returned itself where there is nothing to change.
        most_values, most_characters: of the whole of it.
    """
    try:
        if isinstance(given, dict) and _size(given, 1, most_values) <= most_characters:
            return given, ()
    except _Unsound:
        pass
    copy = _Copy(most_values, most_characters)
    return copy.mapping(given, 1), tuple(copy.said)


class _Unsound(Exception):
    """A value has to be changed."""


def _size(value: Any, depth: int, most: int) -> int:
    """Return characters and values of sound plain data; raise `_Unsound` where there is anything else."""
    kind = type(value)
    if kind is str:
        if not is_sound_text(value):
            raise _Unsound
        return len(value)
    if kind in _ATOMS:
        return 1
    if kind is int:
        if value.bit_length() > _MOST_BITS:
            raise _Unsound
        return 1
    if depth > MOST_DEPTH or kind not in (dict, list) or len(value) > most:
        raise _Unsound
    if kind is list:
        return len(value) + sum(_size(one, depth + 1, most) for one in value)
    for key in value:
        if type(key) is not str:
            raise _Unsound
    return sum(_size(key, depth, most) + _size(one, depth + 1, most) for key, one in value.items())


class _Copy:
    """A copy of unsound data in the making; `said` is what was changed, in order, each once."""

    def __init__(self, values: int, characters: int) -> None:
        self.said: dict[str, None] = {}
        self._values, self._characters = values, characters

    def mapping(self, given: Mapping[Any, Any], depth: int) -> dict[str, Any]:
        out: dict[str, Any] = {}
        for given_key, value in given.items():
            if self._full():
                break
            key = self._text(given_key if isinstance(given_key, str) else self._words(given_key))
            if key in out:
                self._say("has two keys that read alike, of which the first stays")
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
        self._say(f"holds a {type(value).__name__}, which counts as text")
        return self._text(self._words(value)[:1000])

    def _nested(self, value: Any, depth: int) -> Any:
        if depth > MOST_DEPTH:
            self._say(f"is nested deeper than {MOST_DEPTH} levels: what lies there is left out")
            return None
        if isinstance(value, Mapping):
            return self.mapping(value, depth)
        ordered = sorted(value, key=self._words) if isinstance(value, set | frozenset) else value
        return list(self._each(ordered, depth + 1))

    def _each(self, values: Iterable[Any], depth: int) -> Iterable[Any]:
        for one in values:
            if self._full():
                return
            yield self.value(one, depth)

    def _number(self, value: Any) -> int | float | None:
        try:
            number = int(value) if isinstance(value, Integral) else float(value)
            if isinstance(number, float) or number.bit_length() <= _MOST_BITS:
                return number
        except (OverflowError, ValueError):  # no float is as large
            pass
        self._say("holds a number of over 300 digits, which counts as absent")
        return None

    def _text(self, text: str) -> str:
        if not is_sound_text(text):
            self._say("holds characters that are not valid Unicode, or NUL: they were replaced by U+FFFD")
            text = sound_text(text)
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
        self._say("is too large: what is beyond its limit of values or characters is left out")

    def _words(self, value: Any) -> str:
        try:
            return str(value)
        except Exception:  # noqa: BLE001  whatever an object of another does when it is asked for its text
            return type(value).__name__

    def _say(self, what: str) -> None:
        self.said[what] = None
