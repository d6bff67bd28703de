"""Fusion of several rankings of the same collection.

Rank fusion combines retrievers over the same chunks. Across disjoint sources it is meaningless: no chunk has two ranks
to add, and the order in which the sources are declared would decide.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Final, TypeVar

DEFAULT_K: Final = 60
T = TypeVar("T", bound=Hashable)


def reciprocal_rank_fusion(rankings: Sequence[Sequence[T]], *, k: int = DEFAULT_K) -> dict[T, float]:
    """Return score(d) = sum over the rankings of 1 / (k + rank(d)), ranks from 1; in [0, rankings / (k + 1)].

    A document listed twice in one ranking counts at its best rank. Source: Cormack, Clarke and Büttcher,
    SIGIR 2009.

    >>> scores = reciprocal_rank_fusion([["A", "B", "C"], ["A", "C", "D"]])
    >>> {name: round(score, 4) for name, score in scores.items()}
    {'A': 0.0328, 'B': 0.0161, 'C': 0.032, 'D': 0.0159}
    """
    shares = [1.0 / (k + rank) for rank in range(1, max(map(len, rankings), default=0) + 1)]
    scores: dict[T, float] = {}
    for ranking in rankings:
        unique = ranking if len(set(ranking)) == len(ranking) else list(dict.fromkeys(ranking))
        for document, share in zip(unique, shares):
            scores[document] = scores.get(document, 0.0) + share
    return scores


def weighted_fusion(scores: Sequence[Mapping[T, float]], weights: Sequence[float]) -> dict[T, float]:
    """Return the weighted sum of scores that share a scale; a document missing from a list adds 0 for it.

    Args:
        scores: one mapping per retriever, values in [0, 1].
        weights: one per retriever, >= 0.
    """
    total: dict[T, float] = {}
    for weight, ranking in zip(weights, scores, strict=True):
        for document, score in ranking.items():
            total[document] = total.get(document, 0.0) + weight * score
    return total
