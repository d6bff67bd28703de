"""A text in the characters that numbers and addresses are looked for in, with the way back to the places of the text.

Digits of every script become 0 to 9, full-width letters and signs their ASCII ones, all blanks a space, all dashes a
hyphen; characters that show nothing (zero-width, soft hyphens, direction marks) are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from typing import Final, NamedTuple

__all__ = ["PlainText", "plain_text"]

_DIGITS: Final = re.compile(r"[0-9](?:[^0-9]{0,4}[0-9]){3,200}")
_AROUND: Final = 64
_MINUS: Final = "\u2212"
_OTHERS: Final = "".join(map(chr, (*range(0x80, 0x20000), *range(0xE0000, 0xE0080))))
"""What is not ASCII, as far as Unicode has digits, blanks, dashes and characters that show nothing."""


class PlainText(NamedTuple):
    """A text to look through.

    Attributes:
        text: the plain characters.
        places: of every character of the whole its place as it was written; None where they are the same.
        first: where this part begins in the whole.
    """

    text: str
    places: Sequence[int] | None = None
    first: int = 0

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return characters [start, end) as a span of the text as it was written."""
        start, end = self.first + start, self.first + end
        return (start, end) if self.places is None else (self.places[start], self.places[end - 1] + 1)

    def around_digits(self) -> Iterator[PlainText]:
        """Yield the parts in which digits stand close together, with what is around them: no number is elsewhere."""
        start = end = 0
        for found in _DIGITS.finditer(self.text):
            if found.start() - _AROUND > end:
                if end:
                    yield self._part(start, end)
                start = found.start() - _AROUND
            end = found.end() + _AROUND
        if end:
            yield self._part(start, end)

    def _part(self, start: int, end: int) -> PlainText:
        return PlainText(self.text[start:end], self.places, self.first + start)


def plain_text(text: str) -> PlainText:
    """Return a text in plain characters."""
    if text.isascii():
        return PlainText(text)
    plain, unseen = _tables()
    used = set(text)
    for char in used & plain.keys():
        text = text.replace(char, plain[char])
    if used.isdisjoint(unseen):
        return PlainText(text)
    places = [place for place, char in enumerate(text) if char not in unseen]
    return PlainText("".join(text[place] for place in places), places)


@cache
def _tables() -> tuple[Mapping[str, str], frozenset[str]]:
    """Return what is replaced one for one, and what is left out."""
    return dict(_plain_characters()), frozenset(char for char in _OTHERS if unicodedata.category(char) == "Cf")


def _plain_characters() -> Iterator[tuple[str, str]]:
    for char in _OTHERS:
        category = unicodedata.category(char)
        if category == "Nd":
            yield char, str(unicodedata.digit(char))
        elif category == "Zs":
            yield char, " "
        elif category == "Pd" or char == _MINUS:
            yield char, "-"
        elif "\uff01" <= char <= "\uff5e":
            yield char, chr(ord(char) - 0xFEE0)
