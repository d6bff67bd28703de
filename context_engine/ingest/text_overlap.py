"""Whether a text holds what another says, word for word."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_WORD: Final = re.compile(r"\w+")
_MOST: Final = 10_000


def missing(lines: Sequence[str], text: str) -> list[str]:
    """Return the lines that have a word the text does not have; numbers at their end, a page's, do not count.

    >>> missing(["1 Scope ... 3", "Waivers 12"], "1 Scope: all desks")
    ['Waivers 12']
    """
    known = {word.casefold() for word in _WORD.findall(text)}
    return [
        line for line in lines if not {word.casefold() for word in _WORD.findall(line.rstrip(" .0123456789"))} <= known
    ]


def quoted(parts: Sequence[str]) -> str:
    """Return texts one after the other, and how many characters more there are where they are long."""
    whole = " / ".join(" ".join(part.split()) for part in parts)
    return whole if len(whole) <= _MOST else f"{whole[:_MOST].rstrip()} … ({len(whole) - _MOST:,} characters more)"
