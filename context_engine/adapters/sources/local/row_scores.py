"""What rows score under a query: asked of the index once, for the rows of all sources of a search together."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Literal

from tantivy import Query

from context_engine.adapters.sources.local.queries import TextQuery, both, rows
from context_engine.adapters.sources.local.reader import View

__all__ = ["row_scores", "scores"]


def row_scores(
    view: View,
    what: Literal["coverage", "section"],
    question: TextQuery,
    make: Callable[[], Query],
    rids: Collection[int],
) -> dict[int, float]:
    """Return the score of those of some rows that a query of the question finds; what was asked before is known.

    Args:
        view: of one search.
        what: names the query.
        question: what it is made from.
        make: makes it.
        rids: the rows.
    """
    known: dict[int, float | None] = view.once((what, question), dict)
    unknown = [rid for rid in dict.fromkeys(rids) if rid not in known]
    if unknown:
        query = view.once((what, "query", question), make)
        known |= {**dict.fromkeys(unknown), **scores(view, query, unknown)}
    return {rid: score for rid in rids if (score := known[rid]) is not None}


def scores(view: View, query: Query, rids: Collection[int]) -> dict[int, float]:
    """Return the score of those of some rows that a query finds."""
    if not rids:
        return {}
    hits = view.searcher.search(both(query, rows(rids)), limit=len(rids), count=False).hits
    found = view.searcher.fast_field_values("rid", [address for _, address in hits])
    return {int(rid or 0): score for (score, _), rid in zip(hits, found)}
