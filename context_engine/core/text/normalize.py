"""Texts in one spelling, their hashes, versions in one form, and the beginning of a text."""

from __future__ import annotations

import hashlib
import re
import unicodedata
from typing import Final
from unicodedata import category


def normalize(text: str) -> str:
    """Return the text in NFKC, casefolded, with runs of white space as one space and none at the ends.

    >>> normalize("  The Limit\\u00a0is\\n5 %")
    'the limit is 5 %'
    """
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
    return " ".join(text.casefold().split())


def content_sha256(text: str) -> str:
    """Return the SHA-256 of the text's UTF-8 bytes in hex: the identity of exactly these characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


_PREFIX: Final = re.compile(r"^(?:version|ver|v)[.:]?\s*(?=\d)", re.IGNORECASE)


def bare_version(version: str) -> str:
    """Return a version without the word or letter for it before its number, and without white space around it.

    >>> bare_version("v3.2"), bare_version(" Version 3.2"), bare_version("vendor draft")
    ('3.2', '3.2', 'vendor draft')
    """
    return _PREFIX.sub("", version.strip())


_JOINER: Final = "\u200d"
_MOST_BACK: Final = 32


def leading(text: str, most: int) -> str:
    """Return at most `most` characters of a text, without cutting a visible character in two.

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
    """Return whether the character at a place belongs to the visible character before it."""
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
