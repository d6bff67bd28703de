"""What questions and hidden documents are made of: sentences, headings, words, slips of the keyboard."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from random import Random
from typing import Final

from context_engine.core.models import Chunk

_SENTENCE_ENDS: Final = re.compile(r"(?<=[.!?:;])\s+|\n+")
_WORD: Final = re.compile(r"[^\W\d_]{4,}")
_MOST_WORDS: Final = 14
_CONSONANTS: Final = "bdfgklmnprtvz"


def sentence_of(chunk: Chunk, draw: Random) -> str:
    """Return a sentence of a chunk, cut to the length of a question; "" where it has none."""
    found = [part for part in _SENTENCE_ENDS.split(chunk.content) if _WORD.search(part)]
    return " ".join(draw.choice(found).split()[:_MOST_WORDS]) if found else ""


def heading_of(chunk: Chunk) -> str:
    """Return what heads a chunk, "" where nothing does."""
    return next(iter(reversed(chunk.heading_path)), chunk.title or "")


def words_of(texts: Iterable[str]) -> list[str]:
    """Return the different words of some texts, in their order; numbers and short words left out."""
    return list(dict.fromkeys(word for text in texts for word in _WORD.findall(text)))


def misspelt(word: str, draw: Random) -> str:
    """Return a word with one slip of the keyboard after its first letter: two swapped, one left out or one doubled."""
    at = draw.randrange(1, max(len(word) - 1, 2))
    slips: Sequence[str] = (
        word[:at] + word[at + 1 : at + 2] + word[at : at + 1] + word[at + 2 :],
        word[:at] + word[at + 1 :],
        word[:at] + word[at : at + 1] + word[at:],
    )
    return draw.choice(slips)


def unknown_word(draw: Random) -> str:
    """Return a word that nobody wrote."""
    return "".join(draw.choice(_CONSONANTS) + draw.choice("aeiou") for _ in range(4)) + "xq"
