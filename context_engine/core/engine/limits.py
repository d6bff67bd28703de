"""What a candidate must reach to stay, which of those below it `min_chunks` keeps, and where a threshold's kind is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from context_engine.core.models import ModelSettings, RankingSettings, ScoreKind

__all__ = ["Limits", "decide_limits", "how_to_get"]


class Limits(NamedTuple):
    """The limits of one ranking.

    Attributes:
        in_scope: the best absolute signal reached the scope threshold.
        least_absolute: the least absolute signal of a candidate that stays.
        kept: rows below a limit that stay nevertheless, because of `min_chunks`.
    """

    in_scope: bool = True
    least_absolute: float = 0.0
    kept: frozenset[int] = frozenset()


def decide_limits(
    rows: Sequence[int],
    absolute: Sequence[float],
    tiers: Sequence[int],
    below: Mapping[int, float],
    settings: RankingSettings,
) -> Limits:
    """Decide scope first, then the least absolute signal, then which rows `min_chunks` keeps below a limit.

    Those are the relevant ones below similarity_threshold first, by their score of its kind, then the others by their
    absolute signal.

    Args:
        rows: all candidates.
        absolute, tiers: of every row.
        below: the rows below similarity_threshold, with their score.
    """
    in_scope = max((absolute[row] for row in rows), default=0.0) >= settings.scope
    least = settings.min_relevance_score if in_scope else max(settings.scope, settings.min_relevance_score)
    relevant = [row for row in rows if absolute[row] >= least]
    wanted = max(settings.min_chunks - sum(row not in below for row in relevant), 0)
    similar = sorted((row for row in relevant if row in below), key=lambda row: (-below[row], tiers[row], row))
    weak = sorted((row for row in rows if absolute[row] < least), key=lambda row: (-absolute[row], tiers[row], row))
    return Limits(in_scope, least, frozenset([*similar, *weak][:wanted]))


def how_to_get(kind: ScoreKind, settings: ModelSettings) -> str:
    """Return what gives candidates a kind of score that none of them has, as a clause."""
    if kind in (ScoreKind.COSINE, ScoreKind.WEIGHTED) and settings.embedder is None:
        return (
            f"for {kind} scores set 'embedder' in rag-pipeline.json and ingest the documents again, or search Dify by "
            "semantic_search; else set similarity_kind to a kind that the sources give"
        )
    return "set similarity_kind to a kind that the sources give"
