"""One spelling for what people paste: white space, invisible characters, quotes and hyphens. Codes are left alone."""

from __future__ import annotations

import re
import unicodedata
from typing import Final, NamedTuple

_KEPT_FORMAT: Final = "\u200c\u200d"
"""Joiners, which spell words in some scripts."""

_ONE_CHARACTER: Final = str.maketrans(
    {
        **dict.fromkeys("“”„‟«»「」『』《》", '"'),
        **dict.fromkeys("‘’‚‛", "'"),
        **dict.fromkeys("\u2010\u2011\ufe63", "-"),
    }
)
_DASH_IN_CODE: Final = re.compile(r"(?<=[A-Za-z])[\u2012\u2013\u2014\u2212](?=[A-Z0-9])")
_FULL_WIDTH: Final = re.compile(r"[\uff01-\uffee\u3000]+")
_PLAIN: Final = re.compile(r"[!-~]+(?: [!-~]+)*")


class Cleaned(NamedTuple):
    """The text, and whether it was cut."""

    text: str
    shortened: bool


def clean(query: str, most: int = 10_000) -> Cleaned:
    """Return a query in one spelling, at most `most` characters long; a longer one is cut between words.

    White space becomes single spaces, control and invisible characters go, full-width characters become ordinary ones,
    typographic quotes and hyphens plain ones (a dash only inside a code), the rest is in NFC. Of no visible character,
    the query stays as it is.

    >>> clean("  What does\\u00a0“NPA\\u2011001” say? ").text
    'What does "NPA-001" say?'
    """
    text = query if _PLAIN.fullmatch(query) else _spelled(query) or query
    if len(text) <= most:
        return Cleaned(text, False)
    head = text[: most + 1]
    cut = head.rfind(" ")
    return Cleaned(text[: cut if cut > 0 else most], True)


def _spelled(text: str) -> str:
    text = _FULL_WIDTH.sub(lambda run: unicodedata.normalize("NFKC", run[0]), text)
    text = "".join(map(_visible, text)).translate(_ONE_CHARACTER)
    return " ".join(unicodedata.normalize("NFC", _DASH_IN_CODE.sub("-", text)).split())


def _visible(char: str) -> str:
    if char.isspace():
        return " "
    category = unicodedata.category(char)
    if category == "Cc" or (category == "Cf" and char not in _KEPT_FORMAT):
        return ""
    return char
