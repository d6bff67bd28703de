"""Which of the ranked chunks are returned: the best ones, and where asked for not too many of one kind."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from context_engine.core.ranking.analysed import AnalysedText


class Passed(NamedTuple):
    """Why a chunk was not returned.

    Attributes:
        reason: "document_limit" (its document has as many already) or "too_similar" (a chunk ranked lower says more
            that is new).
        value, limit: the document and its limit; the likeness to a returned chunk and lambda.
    """

    reason: str
    value: float | str
    limit: float


class Choice(NamedTuple):
    """The indices returned, ascending, and why better ones were not; all others stand beyond top_k."""

    chosen: list[int]
    passed: dict[int, Passed]


def choose(
    finals: Sequence[float],
    documents: Sequence[tuple[str, str] | None],
    texts: Iterable[AnalysedText],
    *,
    top_k: int,
    max_per_document: int | None = None,
    mmr_lambda: float | None = None,
) -> Choice:
    """Return which of the chunks, given best first, are handed out.

    With `mmr_lambda` each place goes to the chunk with the highest

        lambda * final / best final - (1 - lambda) * (its greatest likeness to a chunk chosen before)

    where likeness is the Jaccard similarity of the sets of terms, [0, 1]. Source: Carbonell and Goldstein, SIGIR 1998
    (maximal marginal relevance). The best chunk always comes first; of equal values the better ranked one.

    Args:
        finals: final scores, descending.
        documents: (source_id, document_id) of each; None counts as a document of its own.
        texts: the text of each; read with `mmr_lambda` alone.
        max_per_document: most chunks of one document; a freed place goes to the next chunk.
        mmr_lambda: [0, 1]; 1 is the ranking alone, None does not compare texts.
    """
    if max_per_document is None and mmr_lambda is None:
        return Choice(list(range(min(top_k, len(finals)))), {})
    picking = _Picking(finals, documents, texts, max_per_document, mmr_lambda)
    while len(picking.chosen) < top_k and picking.left:
        picking.pick()
    return Choice(sorted(picking.chosen), picking.passed(top_k))


class _Picking:
    """The choice under way: what is left, and how like a chosen chunk each of them is."""

    def __init__(
        self,
        finals: Sequence[float],
        documents: Sequence[tuple[str, str] | None],
        texts: Iterable[AnalysedText],
        most: int | None,
        mmr: float | None,
    ) -> None:
        self.documents, self.most, self.mmr = documents, most, mmr
        best = finals[0] if finals and finals[0] > 0.0 else 1.0
        self.worth = [final / best for final in finals]
        self.terms = [frozenset(text.reading.terms) for text in texts] if mmr is not None else []
        self.likeness = [0.0] * len(finals)
        self.of_document: Counter[tuple[str, str] | None] = Counter()
        self.chosen: list[int] = []
        self.left = list(range(len(finals)))

    def pick(self) -> None:
        """Choose one more; leave out what its document has enough of."""
        index = self.left[0] if self.mmr is None else max(self.left, key=self._value)
        self.chosen.append(index)
        self.of_document[self.documents[index]] += 1
        self.left = [other for other in self.left if other != index and not self._full(other)]
        if self.mmr is not None:
            for other in self.left:
                self.likeness[other] = max(self.likeness[other], _jaccard(self.terms[index], self.terms[other]))

    def passed(self, top_k: int) -> dict[int, Passed]:
        """Return why each chunk that was not chosen was passed over."""
        last = max(self.chosen, default=-1) if len(self.chosen) >= top_k else len(self.documents)
        taken, out = set(self.chosen), dict[int, Passed]()
        for index, document in enumerate(self.documents[: last + 1]):
            if index in taken:
                continue
            if document is not None and self._full(index):
                out[index] = Passed("document_limit", document[1], self.most or 0)
            else:
                out[index] = Passed("too_similar", self.likeness[index], self.mmr or 0.0)
        return out

    def _full(self, index: int) -> bool:
        document = self.documents[index]
        return self.most is not None and document is not None and self.of_document[document] >= self.most

    def _value(self, index: int) -> float:
        share = self.mmr or 0.0
        return share * self.worth[index] - (1.0 - share) * self.likeness[index]


def _jaccard(first: frozenset[str], second: frozenset[str]) -> float:
    union = len(first | second)
    return len(first & second) / union if union else 0.0
