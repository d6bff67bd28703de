"""Words of a question that no text of a source has, each with the nearest word of its texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cache
from itertools import chain, groupby
from typing import Final, Protocol

from context_engine.core.models import Chunk, UnknownWord

_FIRST: Final = 5
"""Chunks that are read before the index is queried: the best few contain most words."""


class Vocabulary(Protocol):
    """The words of the texts of one source."""

    def has(self, word: str) -> bool:
        """Return whether some text holds a term of the word; true for a word without terms (a stop word)."""
        ...

    def near(self, word: str, letter: str) -> list[tuple[int, str]]:
        """Return `spelling.near_words` of a word among those beginning with a letter, also of other sources."""
        ...

    def counts(self, words: Sequence[str]) -> Mapping[str, int]:
        """Return the number of texts with each of some words, without those that no text has."""
        ...


def unknown_words(
    words: Iterable[str], chunks: Sequence[Chunk], look_up: Callable[[str], tuple[UnknownWord, ...]]
) -> tuple[UnknownWord, ...]:
    """Return the words that no text of a source has.

    Args:
        words: of the question.
        chunks: of the source, best first: most words are in the first ones, and need no look-up.
        look_up: returns a word with its suggestion, or nothing for a word that the source has (`looked_up`).
    """
    texts = cache(lambda: "\n".join(chunk.content.casefold() for chunk in chunks[:_FIRST]))
    return tuple(chain.from_iterable(look_up(word) for word in words if not _is_in(texts(), word.casefold())))


def looked_up(vocabulary: Vocabulary, word: str) -> tuple[UnknownWord, ...]:
    """Return a word with the nearest one, or nothing if the vocabulary has it.

    The nearest word has the fewest edits; of several, the most frequent. It begins with the word's first letter, or if
    no such word is near, with its second: the first letter may be superfluous or swapped.
    """
    return () if vocabulary.has(word) else (UnknownWord(word, _nearest(vocabulary, word.casefold())),)


def _nearest(vocabulary: Vocabulary, word: str) -> str:
    for letter in dict.fromkeys(word[:2]):
        for _, tied in groupby(vocabulary.near(word, letter), key=lambda candidate: candidate[0]):
            if counts := vocabulary.counts([name for _, name in tied]):
                return min(counts, key=lambda name: (-counts[name], name))
    return ""


def _is_in(texts: str, word: str) -> bool:
    """Return whether a text contains the word as a whole word."""
    start = texts.find(word)
    while start >= 0:
        end = start + len(word)
        if not texts[max(start - 1, 0) : start].isalnum() and not texts[end : end + 1].isalnum():
            return True
        start = texts.find(word, end)
    return False
