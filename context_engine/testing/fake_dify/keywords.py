"""The keywords of a text in an economy dataset: as written, case-sensitive, ten at most."""

from __future__ import annotations

import re
from collections import Counter
from itertools import pairwise
from typing import Final

from context_engine.text import STOP_WORDS, has_cjk

__all__ = ["keywords_of"]

MOST_KEYWORDS: Final = 10
_WORD: Final = re.compile(r"\w+")


def keywords_of(text: str) -> list[str]:
    """Return the ten commonest words of a text as they are written; of equally common ones the first."""
    counts = Counter(word for word in _words(text) if len(word) > 1 and word.casefold() not in STOP_WORDS)
    return [word for word, _ in counts.most_common(MOST_KEYWORDS)]


def _words(text: str) -> list[str]:
    out: list[str] = []
    for word in _WORD.findall(text):
        out += ["".join(pair) for pair in pairwise(word)] if has_cjk(word) else [word]
    return out
