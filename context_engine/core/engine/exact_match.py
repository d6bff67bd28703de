"""Exact matches first: chunks with what a query names exactly, before those without, whatever their tier."""

from __future__ import annotations

from collections.abc import Iterable

from context_engine.core.models import PreparedQuery, Settings
from context_engine.core.query import exact_first
from context_engine.core.ranking.analysed import AnalysedText


def exact_matches_first(
    query: PreparedQuery | None,
    relevance: list[float],
    texts: Iterable[AnalysedText],
    labels: Iterable[AnalysedText],
    settings: Settings,
) -> list[float]:
    """Return relevance at which no tier lifts a chunk without the quoted phrase or code above one with it.

    Unchanged where `exact_first` is off; see `query.exact_first`.
    """
    if query is None or not settings.exact_first:
        return relevance
    weight = settings.relevance_weight
    reach = settings.authority_weight * settings.authority_boosts.of(1)  # over a text that is not trusted
    margin = min(reach / weight, 1.0) if weight else 1.0
    return exact_first(query, relevance, texts, labels, margin)
