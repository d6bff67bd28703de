"""How common the words of a question are where an answer comes from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Self


@dataclass(frozen=True, slots=True, kw_only=True)
class TermStatistics:
    """Document frequencies of a question's terms in the collection that an answer comes from.

    The rarer a word is there, the more a text says that holds it; a word that the collection does not hold at all is
    the strongest sign that it has no answer.

    Attributes:
        collection: names what was counted; sources of one collection give the same name, and it is counted once.
        chunks: how many chunks the collection has, >= 0.
        document_frequency: how many of them hold each term, in text or heading, [0, chunks]. Terms are stems and codes
            as `core.text.term_weights` makes them, of the question and of its expansions; a term that is missing here
            was not counted.
    """

    collection: str
    chunks: int
    document_frequency: Mapping[str, int] = field(default_factory=dict)

    def merged(self, other: Self) -> Self:
        """Return the statistics of two answers from one collection, to two questions or at two moments.

        Of two numbers for one thing the higher is kept, so that their order does not matter.
        """
        frequency = dict(self.document_frequency)
        for term, count in other.document_frequency.items():
            frequency[term] = max(count, frequency.get(term, 0))
        chunks = max(self.chunks, other.chunks)
        return type(self)(collection=self.collection, chunks=chunks, document_frequency=frequency)
