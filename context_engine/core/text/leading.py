"""The beginning of a text, without half a character as people see it."""

from __future__ import annotations

from typing import Final
from unicodedata import category

_JOINER: Final = "\u200d"
_MOST_BACK: Final = 32


def leading(text: str, most: int) -> str:
    """Return at most `most` characters of a text, ending where a character ends as people see it.

    A letter keeps its accents, an emoji its skin tone and what is joined to it, a flag both its letters, a Korean
    syllable its parts, and a line break stays whole. Of a run of marks longer than any writing has, the end is cut.

    >>> leading("cafe\u0301s", 4)
    'caf'
    """
    if len(text) <= most:
        return text
    end = most
    while end > max(0, most - _MOST_BACK) and _continues(text, end):
        end -= 1
    return text[:most] if _continues(text, end) else text[:end]


def _continues(text: str, place: int) -> bool:
    """Whether the character at a place belongs to the one before it."""
    if not 0 < place < len(text):
        return False
    before, here = text[place - 1], text[place]
    if category(here) in ("Mn", "Mc", "Me") or here == _JOINER or before == _JOINER:
        return True
    if "\U0001f3fb" <= here <= "\U0001f3ff" or "\U000e0020" <= here <= "\U000e007f":  # skin tones, tags of flags
        return True
    if _is_flag_letter(here):
        return _flag_letters_before(text, place) % 2 == 1
    return "\u1160" <= here <= "\u11ff" or (before == "\r" and here == "\n")  # Korean vowels and finals


def _is_flag_letter(char: str) -> bool:
    return "\U0001f1e6" <= char <= "\U0001f1ff"


def _flag_letters_before(text: str, place: int) -> int:
    start = place
    while start > 0 and _is_flag_letter(text[start - 1]):
        start -= 1
    return place - start
