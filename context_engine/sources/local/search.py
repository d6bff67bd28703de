"""One search in one view of the base: the query narrowed to a source, a filter and a day, and the rows it finds."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

import tantivy
from tantivy import Occur, Query

from context_engine.models import Chunk, Filter, Score, ScoreKind, SourceAnswer
from context_engine.policy.filters import matches, own_fields
from context_engine.sources.local import index as indexing
from context_engine.sources.local.pushdown import ENGINE_FIELDS, Pushdown, Standing, in_force, relaxed
from context_engine.sources.local.reader import View
from context_engine.sources.local.records import decode

__all__ = ["Scope", "answer"]

_MOST_HITS: Final = 100_000
_MOST_PARAMETERS: Final = 900


@dataclass(frozen=True, slots=True, kw_only=True)
class Scope:
    """Where to look.

    Attributes:
        source_id: the source.
        filters: conditions on the chunks; those on tier, type, trust and classification need `standing`, and are left
            to the engine without it.
        as_of: only what is in force on that day.
        constants: further fields that are the same for every chunk of the source (the domain).
        standing: from what a document claims of its authority to the fields the engine will see.
    """

    source_id: str
    filters: Filter | None = None
    as_of: date | None = None
    constants: Mapping[str, Any] = field(default_factory=dict)
    standing: Standing | None = None


def answer(view: View, text: str, top_k: int, scope: Scope) -> SourceAnswer:
    """Return the best chunks for a text, and notes on the search (see `LocalBase.answer`)."""
    notes = ["index_lag"] if view.held < view.state.generation else []
    found = view.connection.execute("SELECT source_key FROM sources WHERE source_id = ?", (scope.source_id,)).fetchone()
    if found is None:
        return SourceAnswer(notes=(*notes, "source_unknown"))
    query = indexing.text_query(text)
    if query is None:
        return SourceAnswer(notes=(*notes, "no_search_terms"))
    notes += ["query_shortened"] if query.shortened else []
    clauses = [(Occur.Must, query.query), (Occur.Must, _term("source", int(found[0])))]
    clauses += in_force(scope.as_of) if scope.as_of is not None else []
    test = _filtered(view, scope, clauses) if scope.filters is not None else None
    return SourceAnswer(chunks=_found(view, Query.boolean_query(clauses), test, top_k), notes=tuple(notes))


def _filtered(view: View, scope: Scope, clauses: list[tuple[Occur, Query]]) -> Callable[[Chunk], bool] | None:
    """Add the filter to the clauses; return a test for the chunks found, where the index cannot tell all."""
    filters, stand = scope.filters, scope.standing
    assert filters is not None
    constants = {**scope.constants, "source_id": scope.source_id, "source": scope.source_id}
    if stand is None:
        filters = relaxed(filters, ENGINE_FIELDS - constants.keys())
    pushdown = Pushdown(view.connection, view.resolved, constants, stand)
    clauses.append((Occur.Must, Query.const_score_query(pushdown.query(filters), 0.0)))

    def test(chunk: Chunk) -> bool:
        return matches(filters, {**own_fields(chunk), **(stand(chunk) if stand else {}), **constants})

    return None if pushdown.exact else test


def _term(name: str, value: int) -> Query:
    return Query.const_score_query(Query.term_query(indexing.SCHEMA, name, value), 0.0)


def _found(view: View, query: Query, test: Callable[[Chunk], bool] | None, top_k: int) -> list[Chunk]:
    """Return the best top_k chunks; asks for more while rows are gone or fail the test."""
    limit, known = top_k, dict[int, Chunk | None]()
    scorer = f"local:{view.state.base_id}"
    while True:
        hits = _hits(view.searcher, query, limit)
        known |= _chunks(view.connection, [rid for rid, _ in hits if rid not in known], test)
        found = [
            chunk._replace(scores=(Score(ScoreKind.BM25, score, scorer),))
            for rid, score in hits
            if (chunk := known[rid]) is not None
        ]
        if len(found) >= top_k or len(hits) < limit or limit >= _MOST_HITS:
            return found[:top_k]
        limit = min(4 * limit, _MOST_HITS)


def _hits(searcher: tantivy.Searcher, query: Query, limit: int) -> list[tuple[int, float]]:
    """Return (rid, score), best first, of equal scores the older row first."""
    hits = searcher.search(query, limit=limit, count=False).hits
    rids = searcher.fast_field_values("rid", [address for _, address in hits])
    return sorted(zip((int(rid or 0) for rid in rids), (score for score, _ in hits)), key=lambda hit: (-hit[1], hit[0]))


def _chunks(
    connection: sqlite3.Connection, rids: list[int], test: Callable[[Chunk], bool] | None
) -> dict[int, Chunk | None]:
    """Return the chunk of each row, None where the row is gone or fails the test."""
    out: dict[int, Chunk | None] = dict.fromkeys(rids)
    for start in range(0, len(rids), _MOST_PARAMETERS):
        some = rids[start : start + _MOST_PARAMETERS]
        rows = connection.execute(
            "SELECT rid, indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key)"
            f" WHERE rid IN ({','.join('?' * len(some))})",
            some,
        )
        for rid, indexed_at, *row in rows:
            chunk = decode((row[0], row[1], row[2]), indexed_at)
            out[rid] = chunk if test is None or test(chunk) else None
    return out
