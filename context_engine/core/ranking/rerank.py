"""What a model reranker's scores make of relevance, also where only the best candidates were shown to it."""

from __future__ import annotations

from collections.abc import Sequence


def best_of(rows: Sequence[int], relevance: Sequence[float], tiers: Sequence[int], most: int | None) -> list[int]:
    """Return the rows that are reranked, ascending: the `most` best by relevance, equal ones by tier, then row.

    Args:
        rows: the candidates that are left.
        relevance, tiers: of every row.
        most: None for all.
    """
    if most is None:
        return sorted(rows)
    return sorted(sorted(rows, key=lambda row: (-relevance[row], tiers[row], row))[:most])


def blended(relevance: float, score: float, weight: float) -> float:
    """Return weight * relevance + (1 - weight) * score, all in [0, 1]."""
    return weight * relevance + (1.0 - weight) * score


def below_reranked(rest: Sequence[float], before: Sequence[float], after: Sequence[float]) -> list[float]:
    """Return the relevance of candidates that were not reranked, none above the lowest of those that were.

    A cross-encoder's order of its candidates stands above the rest, for the rest is what stage 1 found worse. With
    f = min(1, min(after) / min(before)) relevance r becomes min(f * r, min(after)): the order of the rest and the
    proportions in it stay, and nothing rises.

    Args:
        rest: relevance of those that were not reranked, [0, 1], none above min(before).
        before: relevance of the reranked by stage 1.
        after: their relevance with the reranker's scores.
    """
    low, high = min(after, default=1.0), min(before, default=1.0)
    factor = min(low / high, 1.0) if high > 0.0 else 1.0
    return [min(factor * value, low) for value in rest]
