"""The rows of an embedded base as a graph: positions, section numbers and the index of titles and ids give its edges.

Everything is read through a view, which holds only what the caller may read.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from tantivy import Occur, Query

from context_engine.adapters.sources.local.candidates import LocalQuery, measured
from context_engine.adapters.sources.local.index import INDEX_OPTION, SCHEMA
from context_engine.adapters.sources.local.queries import both, constant
from context_engine.adapters.sources.local.search import SearchedScope, searched_scope
from context_engine.adapters.sources.local.view import View, chunks_of_rows
from context_engine.adapters.sources.stores.links import MOST_NAMED, OF_A_DOCUMENT, GraphRow, links
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import Chunk, Key, Link, LinkQuery, SourceAnswer
from context_engine.core.query.features import belongs_to, spellings
from context_engine.core.text import terms


def linked(view: View, question: LocalQuery, scope: Scope, query: LinkQuery) -> list[Link]:
    """Return the chunks of a source that the origins of a query lead to."""
    asked = searched_scope(view, question, scope)
    if isinstance(asked, SourceAnswer):
        return []
    graph = _LocalGraph(view, question, asked)
    return links(graph, scope.source_id, query.origins, query.edges, query.query.top_k)


class _LocalGraph(NamedTuple):
    """The rows of a source in a view (`SourceGraph`).

    Attributes:
        asked: the rows that a search of the source may find.
    """

    view: View
    question: LocalQuery
    asked: SearchedScope

    def nodes(self, keys: Sequence[Key]) -> Mapping[Key, GraphRow]:
        """Return the rows of the chunks that the view holds."""
        return {key: node for key in keys if (node := self._node(key)) is not None}

    def _node(self, key: Key) -> GraphRow | None:
        view = self.view
        rows = view.connection.execute(
            "SELECT rid, doc_key, partition_key, generation, removed FROM chunks JOIN documents USING (doc_key)"
            " JOIN sources USING (source_key) WHERE chunk_id = ? AND source_id = ?",
            (key[1], key[0]),
        )
        for rid, doc_key, partition_key, generation, removed in rows:
            if partition_key in view.partitions and view.holds(partition_key, generation, removed):
                return GraphRow(rid, doc_key)
        return None

    def has_source(self, source_id: str) -> bool:
        """Return whether documents of a source were ever written."""
        rows = self.view.connection.execute("SELECT true FROM sources WHERE source_id = ?", (source_id,))
        return rows.fetchone() is not None

    def documents(self, names: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return the documents whose id or title has each name."""
        return {name: self._documents(name) for name in names}

    def _documents(self, name: str) -> list[int]:
        view = self.view
        words = [terms(spelling) for spelling in spellings(name)]
        forms = [
            both(*(Query.term_query(SCHEMA, "head", word, INDEX_OPTION) for word in form)) for form in words if form
        ]
        if not forms:
            return []
        headed = Query.boolean_query([(Occur.Should, form) for form in forms])
        hits = view.searcher.search(both(headed, self.asked.scope.query), limit=MOST_NAMED, count=False).hits
        places = [place for _, place in hits]
        rids, documents = (view.searcher.fast_field_values(field, places) for field in ("rid", "doc"))
        first = {int(doc or 0): int(rid or 0) for doc, rid in zip(reversed(documents), reversed(rids), strict=True)}
        chunks = chunks_of_rows(view, first.values())
        return sorted(doc for doc, rid in first.items() if rid in chunks and belongs_to(chunks[rid].chunk, name))

    def sections(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[tuple[int, str | None]]]:
        """Return the row and the section number of each chunk of some documents."""
        statement = (
            "SELECT rid, iif(json_valid(fields), json_extract(fields, '$.section'), NULL) FROM chunks"
            " WHERE doc_key = ? ORDER BY rid"
        )
        return {key: self.view.connection.execute(statement, (key,)).fetchall() for key in doc_keys}

    def best(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[int]]:
        """Return the best rows of each document for the question, by its words."""
        return {doc_key: self._best(doc_key) for doc_key in doc_keys}

    def _best(self, doc_key: int) -> list[int]:
        if self.question.query is None:
            return []
        of_document = constant(Query.term_query(SCHEMA, "doc", doc_key), 0.0)
        query = both(self.question.query.text, of_document, self.asked.scope.query)
        searcher = self.view.searcher
        hits = searcher.search(query, limit=OF_A_DOCUMENT, count=False).hits
        return [int(rid or 0) for rid in searcher.fast_field_values("rid", [place for _, place in hits])]

    def beside(self, nodes: Sequence[GraphRow]) -> Mapping[int, Sequence[int]]:
        """Return the rows after and before each row in its document."""
        statement = "SELECT rid FROM chunks WHERE rid IN (?, ?) AND doc_key = ? ORDER BY rid DESC"
        return {
            node.rid: [
                rid for (rid,) in self.view.connection.execute(statement, (node.rid + 1, node.rid - 1, node.doc_key))
            ]
            for node in nodes
        }

    def scored(self, rids: Collection[int]) -> Mapping[int, Chunk]:
        """Return the chunks that are in the scope, with their scores."""
        rows = measured(self.view, self.question, self.asked.scope, rids)
        chunks, test = chunks_of_rows(self.view, rows.ranked), self.asked.test
        return {
            rid: row_chunk.scored(rows.scores(rid))
            for rid, row_chunk in chunks.items()
            if test is None or test(row_chunk.chunk)
        }
