"""Pictures of a text as the words said for them: Dify fetches whatever a chunk shows as a picture.

Dify takes for one what stands, on one line, between `![` and a later `](…)`: a link behind an exclamation is one too,
and code. So pictures become their words first, and what is left of such marks is parted by a blank.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from html import unescape
from typing import Final, NamedTuple

_PICTURE: Final = re.compile(
    r"!\[((?:[^\[\]\\\n]|\n(?!\s*\n)|\\.|\[[^\[\]\n]*+\])*+)\]"  # its words
    r"(?:\(\s*+(?:<[^<>\n]*+>|(?:[^()\s<]|\([^()\s]*+\))*+)(?:\s++(?:\"[^\"\n]*+\"|'[^'\n]*+'))?\s*+\)|\[[^\[\]\n]*+\])"
    r"|<img\b((?:[^<>\"']|\"[^\"]*+\"|'[^']*+')*+)>"
    r"|<img\b([^<>]*+)>",
    re.IGNORECASE,
)
_ALT: Final = re.compile(r"\balt\s*=\s*(?:\"([^\"]*)\"|'([^']*)'|([^\s\"'>]+))", re.IGNORECASE)
_MARK: Final = "!["
_PARTED: Final = "! ["
_MOST_ROUNDS: Final = 5


class Paged(NamedTuple):
    """A text, and (offset where a page begins, its number) of each of its pages, ascending."""

    text: str
    pages: tuple[tuple[int, int], ...] = ()


class _Change(NamedTuple):
    """A span of a text, and what stands there instead."""

    start: int
    end: int
    words: str


def without_pictures(text: str, pages: Sequence[tuple[int, int]] = ()) -> Paged:
    """Return a text in which Dify finds no picture, and where its pages begin now.

    Args:
        text: Markdown or plain text.
        pages: (offset where a page begins, its number), ascending.

    >>> without_pictures('Limits ![Chart of limits](https://bank.example/c.png) apply', [(0, 1), (54, 2)])
    Paged(text='Limits Chart of limits apply', pages=((0, 1), (23, 2)))
    """
    found = Paged(text, tuple(pages))
    for _ in range(_MOST_ROUNDS):  # a picture among the words of another
        changes = [_Change(one.start(), one.end(), _words(one)) for one in _PICTURE.finditer(found.text)]
        if not changes:
            break
        found = _changed(found, changes)
    return _changed(found, _marks(found.text))


def _words(picture: re.Match[str]) -> str:
    if picture[1] is not None:
        return " ".join(picture[1].split())
    alt = _ALT.search(picture[2] if picture[2] is not None else picture[3])
    return " ".join(unescape(next((one for one in alt.groups() if one), "")).split()) if alt else ""


def _marks(text: str) -> list[_Change]:
    """Return what parts the marks that Dify would still take for a picture's."""
    changes: list[_Change] = []
    start = text.find(_MARK)
    while start >= 0:
        stop = text.find("\n", start)
        stop = len(text) if stop < 0 else stop
        last = text.rfind("](", start, text.rfind(")", start, stop) if ")" in text[start:stop] else start)
        while 0 <= start < last:
            changes.append(_Change(start, start + len(_MARK), _PARTED))
            start = text.find(_MARK, start + 1, stop)
        start = text.find(_MARK, stop)
    return changes


def _changed(paged: Paged, changes: Sequence[_Change]) -> Paged:
    if not changes:
        return paged
    parts: list[str] = []
    ends: list[int] = []
    shifts: list[int] = [0]
    done = 0
    for one in changes:
        parts += (paged.text[done : one.start], one.words)
        done = one.end
        ends.append(one.end)
        shifts.append(shifts[-1] + len(one.words) - (one.end - one.start))
    text = "".join((*parts, paged.text[done:]))
    return Paged(text, tuple((_moved(offset, changes, ends, shifts), page) for offset, page in paged.pages))


def _moved(offset: int, changes: Sequence[_Change], ends: Sequence[int], shifts: Sequence[int]) -> int:
    """Return where an offset lies now; one inside of what was changed, at the end of what stands there instead."""
    before = bisect_right(ends, offset)
    inside = before < len(changes) and changes[before].start < offset
    return changes[before].end + shifts[before + 1] if inside else offset + shifts[before]
