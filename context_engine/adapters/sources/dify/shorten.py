"""A query of at most 250 characters, which is all that Dify takes.

The rule. The query is cut into words at white space (text without spaces: at its punctuation, then every 40
characters). A word that came before, whatever its case, is left out. The words are ranked:

1. words with a digit or in capitals (codes, references, abbreviations), then other words, then function words;
2. within each, words that stand fewer times in the query first, then longer ones, then earlier ones.

Words are taken in that order while they fit, and stand in the order of the query.
"""

from __future__ import annotations

import re
from collections import Counter
from typing import Final

from context_engine.core.text import STOP_WORDS

MOST_CHARACTERS: Final = 250
_LONGEST_WORD: Final = 40
_PART: Final = re.compile(rf"[^、。，；：？！,;:?!]{{1,{_LONGEST_WORD}}}")
_EDGE: Final = "\"'“”‘’()[]{}<>.,;:?!…、。，；：？！"


def shortened(query: str) -> str:
    """Return a query that Dify takes: itself where it has at most 250 code points, else its rarest words.

    >>> shortened("What is the limit?")
    'What is the limit?'
    >>> shortened("limit " * 100 + "of NPA-001")
    'limit of NPA-001'
    """
    if len(query) <= MOST_CHARACTERS:
        return query
    words = [part for word in query.split() for part in _parts(word)]
    counts = Counter(_plain(word) for word in words)
    first: dict[str, int] = {}
    for place, word in enumerate(words):
        first.setdefault(_plain(word), place)
    ranked = sorted(first.values(), key=lambda place: (_group(words[place]), counts[_plain(words[place])],
                                                       -len(words[place]), place))  # fmt: skip
    room = MOST_CHARACTERS + 1
    taken: list[int] = []
    for place in ranked:
        if len(words[place]) + 1 <= room:
            room -= len(words[place]) + 1
            taken.append(place)
    return " ".join(words[place] for place in sorted(taken)) or query.strip()[:MOST_CHARACTERS]


def _parts(word: str) -> list[str]:
    return [word] if len(word) <= _LONGEST_WORD else _PART.findall(word)


def _plain(word: str) -> str:
    return word.strip(_EDGE).casefold()


def _group(word: str) -> int:
    bare = word.strip(_EDGE)
    if any(char.isdigit() for char in bare) or (len(bare) > 1 and bare.isupper()):
        return 0
    return 2 if not bare or bare.casefold() in STOP_WORDS else 1
