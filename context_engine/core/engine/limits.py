"""What a candidate must reach to stay, which of those below it `min_chunks` keeps, and where a threshold's kind is."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import NamedTuple

from context_engine.core.models import ModelSettings, RankingSettings, ScoreKind


class Limits(NamedTuple):
    """The limits of one ranking.

    Attributes:
        in_scope: some candidate's absolute signal reached its scope threshold.
        least_absolute: of each row, the least absolute signal with which it stays.
        kept: rows below a limit that stay nevertheless, because of `min_chunks`.
    """

    in_scope: bool = True
    least_absolute: Mapping[int, float] = MappingProxyType({})
    kept: frozenset[int] = frozenset()


def decide_limits(
    absolute: Sequence[float],
    tiers: Sequence[int],
    scopes: Mapping[int, float],
    below: Mapping[int, float],
    settings: RankingSettings,
) -> Limits:
    """Decide scope first, then the least absolute signal, then which rows `min_chunks` keeps below a limit.

    Those are the relevant ones below similarity_threshold first, by their score of its kind, then the others by their
    absolute signal.

    Args:
        absolute, tiers: of every row.
        scopes: the scope threshold of each row that is a candidate.
        below: the rows below similarity_threshold, with their score.
    """
    in_scope = any(absolute[row] >= scope for row, scope in scopes.items())
    least_in_scope = settings.min_relevance_score
    least = {row: least_in_scope if in_scope else max(scope, least_in_scope) for row, scope in scopes.items()}
    relevant = [row for row in scopes if absolute[row] >= least[row]]
    wanted = max(settings.min_chunks - sum(row not in below for row in relevant), 0)
    similar = sorted((row for row in relevant if row in below), key=lambda row: (-below[row], tiers[row], row))
    weak = sorted(
        (row for row in scopes if absolute[row] < least[row]), key=lambda row: (-absolute[row], tiers[row], row)
    )
    return Limits(in_scope, least, frozenset([*similar, *weak][:wanted]))


def how_to_get(kind: ScoreKind, settings: ModelSettings) -> str:
    """Return what gives candidates a kind of score that none of them has, as a clause."""
    if kind in (ScoreKind.COSINE, ScoreKind.WEIGHTED) and settings.embedder is None:
        return (
            f"for {kind} scores set 'embedder' in rag-pipeline.json and ingest the documents again, or search Dify by "
            "semantic_search; else set similarity_kind to a kind that the sources give"
        )
    return "set similarity_kind to a kind that the sources give"
