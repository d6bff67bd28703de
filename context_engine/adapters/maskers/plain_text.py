"""A text in plain characters, searched for numbers and addresses, with the way back to the original positions.

Digits of every script become 0 to 9, full-width letters and signs become ASCII, every kind of space and dash a space
and a hyphen; invisible characters (zero-width, soft hyphens, direction marks) are left out. An HTML entity (`&nbsp;`,
`&#64;`) is read as its character.
"""

from __future__ import annotations

import re
import unicodedata
from array import array
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from html import unescape
from typing import Final, NamedTuple

_DIGITS: Final = re.compile(r"[0-9](?:[^0-9]{0,4}[0-9]){3,200}")
_ENTITY: Final = re.compile(r"&(?:#\d{1,7}|#[xX][0-9a-fA-F]{1,6}|[a-zA-Z]{2,8});")
_AROUND: Final = 64
_MINUS: Final = "\u2212"
_OTHERS: Final = "".join(map(chr, (*range(0x80, 0x20000), *range(0xE0000, 0xE0080))))
"""The non-ASCII range in which Unicode has digits, spaces, dashes and invisible characters."""


class PlainText(NamedTuple):
    """A text to search, or a part of it.

    Attributes:
        places: the original position of every character of the whole text; None if unchanged.
        first: where this part begins in the whole.
        ends: the original end of every character; None if each is one character long.
    """

    text: str
    places: Sequence[int] | None = None
    first: int = 0
    ends: Sequence[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return the characters [start, end) as a span of the original text."""
        start, end = self.first + start, self.first + end
        if self.places is None:
            return start, end
        return self.places[start], self.places[end - 1] + 1 if self.ends is None else self.ends[end - 1]

    def around_digits(self) -> Iterator[PlainText]:
        """Yield the parts around digits that stand close together; no other part can contain a number."""
        start = end = 0
        for match in _DIGITS.finditer(self.text):
            if match.start() - _AROUND > end:
                if end:
                    yield self._part(start, end)
                start = match.start() - _AROUND
            end = match.end() + _AROUND
        if end:
            yield self._part(start, end)

    def _part(self, start: int, end: int) -> PlainText:
        return PlainText(self.text[start:end], self.places, self.first + start, self.ends)


def plain_text(text: str) -> PlainText:
    entities = [match for match in _ENTITY.finditer(text) if len(unescape(match[0])) == 1] if "&" in text else []
    return _without_entities(text, entities) if entities else _plain(text)


def _without_entities(text: str, entities: Sequence[re.Match[str]]) -> PlainText:
    pieces: list[str] = []
    starts, ends = array("L"), array("L")
    position = 0
    for entity in entities:
        pieces += [text[position : entity.start()], unescape(entity[0])]
        starts.extend((*range(position, entity.start()), entity.start()))
        ends.extend((*range(position + 1, entity.start() + 1), entity.end()))
        position = entity.end()
    starts.extend(range(position, len(text)))
    ends.extend(range(position + 1, len(text) + 1))
    plain = _plain("".join([*pieces, text[position:]]))
    if plain.places is None:
        return PlainText(plain.text, starts, ends=ends)
    return PlainText(
        plain.text, [starts[place] for place in plain.places], ends=[ends[place] for place in plain.places]
    )


def _plain(text: str) -> PlainText:
    """Return a text in plain characters, at most one for each."""
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
    """Return the characters replaced one for one, and those left out."""
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
