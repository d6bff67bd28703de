"""The keywords of a text in an economy dataset: as written, case-sensitive, ten at most."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Final

from context_engine.core.text import STOP_WORDS, has_cjk

MOST_KEYWORDS: Final = 10
_WORD: Final = re.compile(r"\w+")
_PARTICLES: Final = re.compile("[的是在和与及并对向不应为之或等其于以将被由]")


def keywords_of(text: str) -> list[str]:
    """Return the ten commonest words of a text as they are written; of equally common ones the first.

    Chinese is cut at its particles and then into words of two characters, so that a text has about as many words as
    Dify's dictionary finds in it, though not always the same.
    """
    counts = Counter(word for word in _words(text) if len(word) > 1 and word.casefold() not in STOP_WORDS)
    return [word for word, _ in counts.most_common(MOST_KEYWORDS)]


def _words(text: str) -> list[str]:
    out: list[str] = []
    for word in _WORD.findall(text):
        out += _cjk_words(word) if has_cjk(word) else [word]
    return out


def _cjk_words(run: str) -> list[str]:
    words: list[str] = []
    for piece in filter(None, _PARTICLES.split(run)):
        cuts = [*range(0, max(len(piece) - 1, 1), 2), len(piece)]
        words += [piece[start:end] for start, end in pairwise(cuts)]
    return words
