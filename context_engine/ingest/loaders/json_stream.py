"""A JSON text of any length, read value by value: of a list of a million objects one is held at a time."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, Final, NamedTuple, TextIO

from context_engine.ingest.loaders.json_text import JsonReader, TooDeep
from context_engine.ingest.loaders.records import MOST_LINE

BLOCK: Final = 1 << 18
"""Characters read at a time."""
_BLANKS: Final = re.compile(r"[ \t\n\r\ufeff]*")
_OUTSIDE: Final = re.compile(r'["\[\]{},]')
_INSIDE: Final = re.compile(r'["\\]')
_NEAR: Final = 16
"""An error so near the end of what was read may be none: a number or literal is cut there."""
_NUMBER_GOES_ON: Final = re.compile(r"[0-9.eE+-]*\Z")
"""Up to the end of what was read nothing but what a number may go on with: of "0.5" cut behind the point, "."."""


class Broken(ValueError):
    """From here on nothing can be read."""


class Unread(NamedTuple):
    """A value that stands in place of one that cannot be read, with the reason."""

    reason: str


class JsonStream:
    """Reads an open text; `sign` looks at what comes, the others take it.

    Args:
        stream: an open text file.
        most: most characters of a value that is held as a whole.
        block: characters read at a time.
    """

    def __init__(self, stream: TextIO, *, most: int = MOST_LINE, block: int = BLOCK) -> None:
        self._stream, self._most, self._block = stream, most, block
        self._text, self._at, self._ended = "", 0, False
        self._before = self._lines = 0  # characters and line ends that were let go
        self._reader = JsonReader()
        self.repairs: tuple[str, ...] = ()  # what was repaired in the value read last

    @property
    def taken(self) -> int:
        """Characters taken so far."""
        return self._before + self._at

    def sign(self) -> str:
        """Return the next character that is no blank, "" at the end."""
        while True:
            self._at = _BLANKS.match(self._text, self._at).end()  # type: ignore[union-attr]  # it always matches
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._filled():
                return ""

    def value(self) -> Any:
        """Take a value, or an `Unread` in place of one that cannot be read."""
        self.repairs = ()
        self.sign()
        while True:
            try:
                found = self._reader.read(self._text, self._at)
            except json.JSONDecodeError as error:
                cut = error.pos >= len(self._text) - _NEAR or error.msg.startswith("Unterminated")
                if cut and self._filled():
                    continue
                return self._passed(error)
            except TooDeep:
                return self._passed(None)
            if not _NUMBER_GOES_ON.match(self._text, found.end) or not self._filled():
                self._at, self.repairs = found.end, found.repairs
                return found.value

    def elements(self) -> Iterator[Any]:
        """Take a list and yield its values; each is to be used before the next is asked for.

        Raises:
            Broken: no list can be read on from here.
        """
        self._at += 1
        while self.sign() != "]":
            yield self.value()
            self._comma("]")
        self._at += 1

    def members(self) -> Iterator[str]:
        """Take an object and yield its keys; the value of each has to be taken before the next is asked for.

        Raises:
            Broken: no object can be read on from here.
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
            what = f"',' or {end!r} is expected" if sign else "the text ends in the middle"
            raise Broken(self._placed(f"is not JSON: {what}"))

    def _passed(self, error: json.JSONDecodeError | None) -> Unread:
        """Pass over a value that cannot be read and say why.

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

    def _placed(self, what: str, at: int | None = None) -> str:
        line = self._lines + self._text.count("\n", 0, self._at if at is None else at) + 1
        return f"{what} (line {line})"

    def _filled(self) -> bool:
        """Read on; False at the end of the text, or where a value is too long to be held."""
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
