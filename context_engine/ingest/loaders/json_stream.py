"""A JSON text of any length, read value by value: only one object of a long list is held at a time.

Text that violates JSON but can be read is read and reported: a key that appears twice keeps both values; NaN, Infinity
and numbers out of range stay text; a lone surrogate becomes U+FFFD. Values nested deeper than MOST_DEPTH are refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, NamedTuple, TextIO

from context_engine.ingest.loaders.records import MOST_LINE

MOST_DEPTH: Final = 64
_ODD: Final = re.compile(r"\\u[dD]|[eE]\+?\d{3}|\d{300}")
"""Finds text that may hold a surrogate or an infinite number."""
_SHOWN: Final = 40
BLOCK: Final = 1 << 18
"""Characters read at a time."""
_BLANKS: Final = re.compile(r"[ \t\n\r\ufeff]*")
_OUTSIDE: Final = re.compile(r'["\[\]{},]')
_INSIDE: Final = re.compile(r'["\\]')
_NEAR: Final = 16
"""An error this close to the end of the buffer may be a number or literal that the buffer cuts."""
_NUMBER_GOES_ON: Final = re.compile(r"[0-9.eE+-]*\Z")
"""Whether only characters of a number follow up to the end of the buffer: "0.5" may be cut behind the point."""


class TooDeep(ValueError):
    """A value is nested deeper than MOST_DEPTH."""


class JsonValue(NamedTuple):
    """A value, the offset after it, and its repairs."""

    value: Any
    end: int
    repairs: tuple[str, ...] = ()


class JsonReader:
    """Reads one value at a time; not thread-safe."""

    def __init__(self) -> None:
        self._repairs: dict[str, None] = {}
        self._plain = json.JSONDecoder(strict=False, object_pairs_hook=self._object, parse_constant=self._constant)
        self._careful = json.JSONDecoder(
            strict=False,
            object_pairs_hook=self._object,
            parse_constant=self._constant,
            parse_int=self._int,
            parse_float=self._real,
        )

    def read(self, text: str, at: int = 0) -> JsonValue:
        """Return the value that begins at an offset.

        Raises:
            json.JSONDecodeError: not a value.
            TooDeep: nested too deep.
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
        except ValueError:  # an integer with more digits than Python converts
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
        self._repairs[f"{name} is not a JSON number: kept as text"] = None
        return name

    def _int(self, digits: str) -> int | str:
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
        valid = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
        if valid != text:
            self._repairs["a lone surrogate (\\ud800-\\udfff), which is not a character, became U+FFFD"] = None
        return valid


def _deeper(value: Any) -> bool:
    """Whether a value is nested deeper than MOST_DEPTH; checked level by level, without recursion."""
    level = [value]
    for _ in range(MOST_DEPTH + 1):
        level = [
            inner
            for value in level
            if isinstance(value, (dict, list))
            for inner in (value.values() if isinstance(value, dict) else value)
        ]
        if not level:
            return False
    return True


class Broken(ValueError):
    """Nothing more can be read from this stream."""


class Unread(NamedTuple):
    """Replaces a value that cannot be read; holds the reason."""

    reason: str


class JsonStream:
    """Reads an open text; `sign` looks at the next character, the other methods consume.

    Args:
        most: limit in characters for a value that is held in memory.
        block: characters read at a time.
    """

    def __init__(self, stream: TextIO, *, most: int = MOST_LINE, block: int = BLOCK) -> None:
        self._stream, self._most, self._block = stream, most, block
        self._text, self._at, self._ended = "", 0, False
        self._before = self._lines = 0  # characters and line ends already discarded
        self._reader = JsonReader()
        self.repairs: tuple[str, ...] = ()  # of the last value

    @property
    def taken(self) -> int:
        return self._before + self._at

    def sign(self) -> str:
        """Return the next character that is not blank, "" at the end."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]  # it always matches
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._filled():
                return ""

    def value(self) -> Any:
        """Consume and return a value; an `Unread` if it cannot be read."""
        self.repairs = ()
        self.sign()
        while True:
            try:
                value = self._reader.read(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self._text) - _NEAR or error.msg.startswith("Unterminated")
                if cut and self._filled():
                    continue
                return self._passed(error)
            except TooDeep:
                return self._passed(None)
            if not _NUMBER_GOES_ON.match(self._text, value.end) or not self._filled():
                self._at, self.repairs = value.end, value.repairs
                return value.value

    def elements(self) -> Iterator[Any]:
        """Consume a list and yield its values; use each before requesting the next.

        Raises:
            Broken: the list cannot be read further.
        """
        self._at += 1
        while self.sign() != "]":
            yield self.value()
            self._comma("]")
        self._at += 1

    def members(self) -> Iterator[str]:
        """Consume an object and yield its keys; consume each value before requesting the next key.

        Raises:
            Broken: the object cannot be read further.
        """
        self._at += 1
        while self.sign() != "}":
            key = self.value()
            if not isinstance(key, str) or self.sign() != ":":
                raise Broken(self._placed("is not JSON: a key and a colon are expected"))
            self._at += 1
            yield key
            self._comma("}")
        self._at += 1

    def _comma(self, end: str) -> None:
        sign = self.sign()
        if sign == ",":
            self._at += 1
        elif sign != end:
            problem = f"',' or {end!r} is expected" if sign else "the text ends in the middle"
            raise Broken(self._placed(f"is not JSON: {problem}"))

    def _passed(self, error: json.JSONDecodeError | None) -> Unread:
        """Skip a value that cannot be read and return the reason.

        Raises:
            Broken: nothing follows it.
        """
        if error is None:
            unread = Unread("is nested too deep")
        elif len(self._text) - self._at >= self._most and not self._ended:
            unread = Unread(f"has over {self._most:,} characters")
        else:
            unread = Unread(f"is not JSON: {self._placed(error.msg, error.pos)}")
        depth, quoted = 0, False
        while True:
            match = (_INSIDE if quoted else _OUTSIDE).search(self._text, self._at)
            if match is None:
                self._at = len(self._text)
                if not self._filled():
                    raise Broken(unread.reason)
                continue
            self._at = match.end()
            if match[0] == "\\":
                if self._at < len(self._text) or self._filled():
                    self._at += 1
            elif match[0] == '"':
                quoted = not quoted
            elif match[0] in "[{":
                depth += 1
            elif not depth:  # the comma or bracket behind a value
                self._at -= 1
                return unread
            elif match[0] in "]}":
                depth -= 1
                if not depth:
                    return unread

    def _placed(self, problem: str, at: int | None = None) -> str:
        line = self._lines + self._text.count("\n", 0, self._at if at is None else at) + 1
        return f"{problem} (line {line})"

    def _filled(self) -> bool:
        """Read more text; False at the end of the text, or if a value is too long to hold."""
        waiting = len(self._text) - self._at
        if self._ended or waiting >= self._most:
            return False
        more = self._stream.read(max(self._block, waiting))
        if not more:
            self._ended = True
            return False
        self._lines += self._text.count("\n", 0, self._at)
        self._before += self._at
        self._text, self._at = self._text[self._at :] + more, 0
        return True
