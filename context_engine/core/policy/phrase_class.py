"""Hundreds of phrases that mean the same, found in a text at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import cached_property
from typing import Final

from context_engine.core.text import fold

_FIRST_UNBOUNDED: Final = "\u0900"
"""From here on are the scripts whose words are not parted by blanks, or do not end where a pattern sees their end."""
_LEAST_COMPACT: Final = 4
_STEM: Final = 4
_WORD: Final = re.compile(r"[^\W_]+")
_END: Final = ""
_Tree = dict[str, "_Tree"]


def words_of(folded: str) -> frozenset[str]:
    """Return the words of a folded text, and the first characters of each, for words with any ending."""
    words = set(_WORD.findall(folded))
    return frozenset(words.union([word[:_STEM] for word in words]))


class PhraseClass:
    """Phrases of one class, in any language; its patterns are compiled when a text may hold one of them.

    Args:
        phrases: words parted by one blank; "*" at the end of one for any ending.

    Attributes:
        needs: of each phrase that begins and ends with words, the `words_of` every text with it.
        begins: the first letters of each phrase that is looked for in letters without blanks; all such letters with
            the phrase hold them.
        characters: the first of each other phrase, which may stand within a word.
    """

    def __init__(self, phrases: Iterable[str]) -> None:
        self._folded = list(dict.fromkeys(fold(phrase).text for phrase in phrases))
        self._words = [phrase for phrase in self._folded if max(phrase) < _FIRST_UNBOUNDED]
        self.needs = frozenset(map(_words_needed, self._words))
        letters = (phrase.replace(" ", "").rstrip("*") for phrase in self._words)
        self._long = [one for one in letters if len(one) >= _LEAST_COMPACT]
        self._others = [phrase for phrase in self._folded if max(phrase) >= _FIRST_UNBOUNDED]
        self.characters = frozenset(phrase[0] for phrase in self._others)
        self.begins = frozenset(one.partition("*")[0][:_LEAST_COMPACT] for one in self._long)

    @cached_property
    def _bounded(self) -> re.Pattern[str]:
        return re.compile(r"(?<![^\W_])" + _pattern(_tree(self._words), r"[\W_]{1,6}") + r"(?![^\W_])")

    @cached_property
    def _unbounded(self) -> re.Pattern[str]:
        return re.compile(_pattern(_tree(self._others), r"[\W_]{0,6}"))

    @cached_property
    def _compact(self) -> re.Pattern[str]:
        return re.compile(_pattern(_tree(self._long), ""))

    def in_text(self, folded: str) -> list[tuple[int, int]]:
        """Return the places of its phrases in a folded text."""
        found = [one.span() for one in self._bounded.finditer(folded)]
        return found if folded.isascii() else found + [one.span() for one in self._unbounded.finditer(folded)]

    def in_letters(self, letters: str) -> list[tuple[int, int]]:
        """Return the places of its phrases in folded letters without blanks."""
        return [one.span() for one in self._compact.finditer(letters)]


def _words_needed(phrase: str) -> frozenset[str]:
    return frozenset(word[:_STEM] if word.endswith("*") else word for word in phrase.split())


def _tree(phrases: Iterable[str]) -> _Tree:
    tree: _Tree = {}
    for phrase in phrases:
        node = tree
        for char in phrase:
            node = node.setdefault(char, {})
        node[_END] = {}
    return tree


def _pattern(node: _Tree, gap: str) -> str:
    """Return a pattern of what may follow, longer phrases before shorter ones; of nothing for no phrases."""
    if not node:
        return "(?!)"
    ways = [_one(char, gap) + _pattern(below, gap) for char, below in sorted(node.items()) if char != _END]
    if _END in node:
        ways.append("")
    return ways[0] if len(ways) == 1 else f"(?:{'|'.join(ways)})"


def _one(char: str, gap: str) -> str:
    if char == " ":
        return gap
    return r"\w{0,12}" if char == "*" else re.escape(char)
