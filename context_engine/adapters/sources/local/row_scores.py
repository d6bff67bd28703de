"""What rows score under a query."""

from __future__ import annotations

from collections.abc import Collection

from tantivy import Query

from context_engine.adapters.sources.local.queries import both, rows
from context_engine.adapters.sources.local.reader import View


def scores(view: View, query: Query, rids: Collection[int]) -> dict[int, float]:
    """Return the score of those of some rows that a query finds."""
    if not rids:
        return {}
    hits = view.searcher.search(both(query, rows(rids)), limit=len(rids), count=False).hits
    found = view.searcher.fast_field_values("rid", [address for _, address in hits])
    return {int(rid or 0): score for (score, _), rid in zip(hits, found)}
