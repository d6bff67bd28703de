"""A text that is read in parts of a bounded length, each from where the one before ended."""

from __future__ import annotations

from typing import Final, NamedTuple

from context_engine.core.context import ApproxTokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import CursorExpired

_DIGEST: Final = 12
_MOST_PER_TOKEN: Final = 40
"""Characters; no text but white space has as many."""

_counter: Final = ApproxTokenCounter()


class TextPart(NamedTuple):
    """Characters [start, end) of a text.

    Attributes:
        cursor: of what comes after; None at the end.
    """

    start: int
    end: int
    cursor: str | None


def part_of(text: str, cursor: str | None, most_tokens: int) -> TextPart:
    """Return the part that begins where a cursor says, else the first; it ends between lines or words where it can.

    Raises:
        CursorExpired: the cursor is of another text: this one has changed since.
    """
    start = 0 if cursor is None else _start(text, cursor)
    end = _end(text, start, most_tokens)
    more = f"{end}.{content_sha256(text)[:_DIGEST]}" if end < len(text) else None
    return TextPart(start, end, more)


def _start(text: str, cursor: str) -> int:
    place, _, digest = cursor.partition(".")
    known = place.isascii() and place.isdecimal() and digest == content_sha256(text)[:_DIGEST]
    if not known or not 0 < int(place) < len(text):
        raise CursorExpired("the text has changed since this cursor was given: fetch it from its beginning")
    return int(place)


def _end(text: str, start: int, most_tokens: int) -> int:
    """Return where a part ends: the count never falls as a text grows, so the place is found by halving."""
    least, most = start + 1, min(len(text), start + _MOST_PER_TOKEN * most_tokens)
    while least < most:
        middle = (least + most + 1) // 2
        if _counter.count(text[start:middle]) <= most_tokens:
            least = middle
        else:
            most = middle - 1
    if least == len(text):
        return least
    for mark in ("\n", " "):
        found = text.rfind(mark, start + (least - start) // 2, least)
        if found >= 0:
            return found + 1
    return least
