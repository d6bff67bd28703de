"""A text in the characters that numbers and addresses are looked for in, with the way back to the places of the text.

Digits of every script become 0 to 9, full-width letters and signs their ASCII ones, all blanks a space, all dashes a
hyphen; characters that show nothing (zero-width, soft hyphens, direction marks) are left out.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final, NamedTuple

__all__ = ["PlainText", "plain_text"]

_MINUS: Final = "\u2212"
_OTHERS: Final = "".join(map(chr, (*range(0x80, 0x20000), *range(0xE0000, 0xE0080))))
"""What is not ASCII, as far as Unicode has digits, blanks, dashes and characters that show nothing."""


class PlainText(NamedTuple):
    """A text to look through.

    Attributes:
        text: the plain characters.
        places: of each its place in the text as it was written; None where they are the same.
    """

    text: str
    places: Sequence[int] | None = None

    def span(self, start: int, end: int) -> tuple[int, int]:
        """Return characters [start, end) as a span of the text as it was written."""
        return (start, end) if self.places is None else (self.places[start], self.places[end - 1] + 1)


def plain_text(text: str) -> PlainText:
    """Return a text in plain characters."""
    if text.isascii():
        return PlainText(text)
    odd, unseen = _tables()
    text = odd[0].sub(lambda found: odd[1][found[0]], text)
    if not unseen.search(text):
        return PlainText(text)
    places = [place for place, char in enumerate(text) if not unseen.match(char)]
    return PlainText("".join(text[place] for place in places), places)


@cache
def _tables() -> tuple[tuple[re.Pattern[str], dict[str, str]], re.Pattern[str]]:
    """Return what is replaced one for one, and what is left out."""
    plain = dict(_plain_characters())
    unseen = "".join(char for char in _OTHERS if unicodedata.category(char) == "Cf")
    odd = re.compile(f"[{re.escape(''.join(plain))}]")
    return (odd, plain), re.compile(f"[{re.escape(unseen)}]")


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
