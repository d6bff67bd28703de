"""How far a word of a text says what a word of a question says: the same word, a synonym of policies, another form."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from context_engine.core.text import synonyms, terms

CLOSE: Final = 0.85
"""Strength of a synonym; the word itself has 1."""

DERIVED: Final = 0.9
"""Strength of a longer or shorter form of the word, such as "administrator" for "administer"."""

_AMERICAN: Final = {"enc": "ens", "our": "or", "is": "iz", "ys": "yz"}
_BRITISH: Final = re.compile(r"(?<=\w{3})(?:enc|our|is|ys)$")
_LEAST_PREFIX: Final = 5
_MOST_ENDING: Final = 4
_PERSON: Final = "e"
"""The ending that makes the stem of a person ("employe", of "employee") from that of an act ("employ")."""


def _one_spelling(stem: str) -> str:
    """Return a stem as Americans spell it: "licens" for "licenc", "honor" for "honour"."""
    return _BRITISH.sub(lambda end: _AMERICAN[end[0]], stem)


@lru_cache(maxsize=65_536)
def closeness(asked: str, written: str) -> float:
    """Return how far a word of a text says what a word of a question says, [0, 1].

    Args:
        asked, written: search terms as `core.text.terms` gives them.

    >>> closeness("retain", "retain"), closeness("keep", "retain"), closeness("keep", "limit")
    (1.0, 0.85, 0.0)
    """
    if asked == written or _one_spelling(asked) == _one_spelling(written):
        return 1.0
    if written in synonyms(asked):
        return CLOSE
    short, long = sorted((asked, written), key=len)
    if not long.startswith(short) or not (short.isalpha() and long.isalpha()):
        return 0.0
    ending = long[len(short) :]
    related = len(short) >= _LEAST_PREFIX and len(ending) <= _MOST_ENDING and ending != _PERSON
    return DERIVED if related else 0.0


@lru_cache(maxsize=65_536)
def closest(asked: str, words: frozenset[str]) -> float:
    """Return how far one of some words says what a word of a question says, [0, 1]; see `closeness`."""
    return max((closeness(asked, word) for word in words), default=0.0)


def closest_of(asked: Iterable[str], text: str) -> float:
    """Return how far a word of a text says what one of a question's words says, [0, 1]."""
    words = frozenset(terms(text))
    return max((closest(term, words) for term in asked), default=0.0)
