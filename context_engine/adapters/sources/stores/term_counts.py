"""How many texts and heads of each access class hold a term: the changes since the last commit."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

WRITTEN: Final = "~"
"""Begins a word as it is written, where it stands among terms; no term begins with it."""


class ClassCounts:
    """The changes of one class.

    Attributes:
        texts, heads: how many more of each hold a term; fewer if negative. A word as written counts as another term.
        number, words: how many more texts there are, and terms in them.
    """

    def __init__(self) -> None:
        self.texts: Counter[str] = Counter()
        self.heads: Counter[str] = Counter()
        self.number = self.words = 0

    @property
    def changed(self) -> list[str]:
        """The terms with other counts than before, in order."""
        return sorted(term for term in {*self.texts, *self.heads} if self.texts[term] or self.heads[term])


class TermCounts:
    """The changes of all classes, by their keys."""

    def __init__(self) -> None:
        self._of: dict[int, ClassCounts] = {}

    def add(self, key: int, body: Sequence[str], head: Iterable[str], sign: int, written: Iterable[str] = ()) -> None:
        """Count a text, and its words as they are written; with sign -1, discount it."""
        counts = self._of.setdefault(key, ClassCounts())
        add = Counter.update if sign > 0 else Counter.subtract
        add(counts.texts, frozenset((*body, *written)))
        add(counts.heads, head)
        counts.number += sign
        counts.words += sign * len(body)

    def changes(self) -> Iterator[tuple[int, ClassCounts]]:
        """Yield the changes of each class."""
        yield from self._of.items()
