"""What chunks of an embedded base lead to: the chunks beside them, the clauses and the documents that they cite.

No edge is stored: positions, section numbers and the index of titles and ids give them for the snapshot of the search.
So they are right for every base, of any age, and hold for documents that were ingested after those that cite them.
Everything is read through a view, which holds only what the caller may read.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from tantivy import Occur, Query

from context_engine.adapters.sources.local.candidates import LocalQuery, measured
from context_engine.adapters.sources.local.index import INDEX_OPTION, SCHEMA
from context_engine.adapters.sources.local.queries import both, constant
from context_engine.adapters.sources.local.search import SearchedScope, searched_scope
from context_engine.adapters.sources.local.view import View, chunks_of_rows
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import CitedClause, Edge, Key, Link, LinkOrigin, SourceAnswer
from context_engine.core.query.citations import belongs_to, cited_sections
from context_engine.core.query.features import spellings
from context_engine.core.text import terms

_MOST_CITED: Final = 16
"""Citations of a chunk that are followed; the rest of a list of references is not."""
_MOST_SECTIONS: Final = 4
_OF_A_DOCUMENT: Final = 3
"""Chunks of a document that is cited as a whole: the best for the question."""
_MOST_NAMED: Final = 200


class _Row(NamedTuple):
    """A chunk's row, and its document's."""

    rid: int
    doc_key: int


class _End(NamedTuple):
    """Where an edge leads to."""

    origin: Key
    edge: Edge
    rid: int


def links(
    view: View, question: LocalQuery, scope: Scope, origins: Sequence[LinkOrigin], edges: frozenset[Edge], top_k: int
) -> list[Link]:
    """Return the chunks of a source that the origins lead to, the best origins first, each chunk once.

    Args:
        scope: of the source; each chunk is in it.
        top_k: most chunks returned.
    """
    asked = searched_scope(view, question, scope)
    if isinstance(asked, SourceAnswer):
        return []
    rows = {origin.key: row for origin in origins if (row := _row(view, origin.key)) is not None}
    ends: dict[int, _End] = {}
    for origin in origins:
        if origin.key in rows:
            for end in _ends(view, question, asked, origin, rows[origin.key], edges):
                ends.setdefault(end.rid, end)
    beside = {row.rid for row in rows.values()}  # a chunk's score counts its best sibling
    of_rows = measured(view, question, asked.scope, [*ends, *(rid for rid in beside if rid not in ends)])
    places = {rid: place for place, rid in enumerate(ends)}
    reached = sorted((rid for rid in of_rows.ranked if rid in ends), key=places.__getitem__)
    chunks = chunks_of_rows(view, reached)
    kept = [(ends[rid], chunks[rid], rid) for rid in reached if rid in chunks]
    return [
        Link(end.origin, end.edge, chunk.scored(of_rows.scores(rid)))
        for end, chunk, rid in kept
        if asked.test is None or asked.test(chunk.chunk)
    ][:top_k]


def _row(view: View, key: Key) -> _Row | None:
    """Return the row of a chunk that the view holds."""
    rows = view.connection.execute(
        "SELECT rid, doc_key, partition_key, generation, removed FROM chunks JOIN documents USING (doc_key)"
        " JOIN sources USING (source_key) WHERE chunk_id = ? AND source_id = ?",
        (key[1], key[0]),
    )
    return next(
        (
            _Row(rid, doc_key)
            for rid, doc_key, partition_key, generation, removed in rows
            if partition_key in view.partitions and view.holds(partition_key, generation, removed)
        ),
        None,
    )


def _ends(
    view: View, question: LocalQuery, asked: SearchedScope, origin: LinkOrigin, row: _Row, edges: frozenset[Edge]
) -> Iterator[_End]:
    """Yield where the edges of a chunk lead to."""
    own = origin.key[0] == asked.scope.source_id
    for cited in origin.citations[:_MOST_CITED]:
        documents = _named(view, asked, cited.document) if cited.document else [row.doc_key] if own else []
        for doc_key in documents:
            clauses = _sections(view, doc_key, cited) if cited.clause else []
            whole = cited.document and not clauses and doc_key != row.doc_key
            if Edge.CITES in edges:
                yield from (_End(origin.key, Edge.CITES, rid) for rid in clauses if rid != row.rid)
            if Edge.BELONGS_TO in edges and whole:
                best = _best_of(view, question, asked, doc_key)
                yield from (_End(origin.key, Edge.BELONGS_TO, rid) for rid in best)
    if own and Edge.NEXT_CHUNK in edges:
        yield from (_End(origin.key, Edge.NEXT_CHUNK, rid) for rid in _beside(view, row))


def _sections(view: View, doc_key: int, cited: CitedClause) -> list[int]:
    """Return the rows of a document with the cited clause."""
    rows = view.once(
        ("sections", doc_key),
        lambda: view.connection.execute(
            "SELECT rid, iif(json_valid(fields), json_extract(fields, '$.section'), NULL) FROM chunks"
            " WHERE doc_key = ? ORDER BY rid",
            (doc_key,),
        ).fetchall(),
    )
    return [rows[place][0] for place in cited_sections([section for _, section in rows], cited.clause)[:_MOST_SECTIONS]]


def _beside(view: View, row: _Row) -> list[int]:
    """Return the rows after and before a row in its document."""
    rows = view.connection.execute(
        "SELECT rid FROM chunks WHERE rid IN (?, ?) AND doc_key = ? ORDER BY rid DESC",
        (row.rid + 1, row.rid - 1, row.doc_key),
    )
    return [int(rid) for (rid,) in rows]


def _named(view: View, asked: SearchedScope, name: str) -> list[int]:
    """Return the documents of a source whose id or title has a name; cached for the search."""
    return view.once(("named", asked.scope.source_id, name.casefold()), lambda: _documents(view, asked, name))


def _documents(view: View, asked: SearchedScope, name: str) -> list[int]:
    words = [terms(spelling) for spelling in spellings(name)]
    forms = [both(*(Query.term_query(SCHEMA, "head", word, INDEX_OPTION) for word in form)) for form in words if form]
    if not forms:
        return []
    headed = Query.boolean_query([(Occur.Should, form) for form in forms])
    hits = view.searcher.search(both(headed, asked.scope.query), limit=_MOST_NAMED, count=False).hits
    places = [place for _, place in hits]
    rids, documents = (view.searcher.fast_field_values(field, places) for field in ("rid", "doc"))
    first = {int(doc or 0): int(rid or 0) for doc, rid in zip(reversed(documents), reversed(rids), strict=True)}
    chunks = chunks_of_rows(view, first.values())
    return sorted(doc for doc, rid in first.items() if rid in chunks and belongs_to(chunks[rid].chunk, name))


def _best_of(view: View, question: LocalQuery, asked: SearchedScope, doc_key: int) -> list[int]:
    """Return the best rows of a document for the question, by its words."""
    if question.query is None:
        return []
    of_document = constant(Query.term_query(SCHEMA, "doc", doc_key), 0.0)
    query = both(question.query.text, of_document, asked.scope.query)
    hits = view.searcher.search(query, limit=_OF_A_DOCUMENT, count=False).hits
    return [int(rid or 0) for rid in view.searcher.fast_field_values("rid", [place for _, place in hits])]
