"""The nodes of a store as a graph: `NEXT_CHUNK`, `BELONGS_TO`, section numbers, titles and ids give its edges."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from context_engine.adapters.sources.neo4j.conditions import GraphView, ScopedNodes, all_in_head
from context_engine.adapters.sources.neo4j.state import VISIBLE, text_index
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.links import MOST_NAMED, GraphRow, SearchedGraph, grouped
from context_engine.adapters.sources.stores.question import head_forms
from context_engine.core.models import Key
from context_engine.core.query.features import belongs_to


def _headed(name: str) -> str:
    """Return the full text query for the heads that hold all words of a name, in one of its spellings."""
    return " ".join(f"({all_in_head(form)})" for form in head_forms(name))


class NodeGraph(SearchedGraph[GraphView, ScopedNodes]):
    """The rows of a source in a view."""

    def nodes(self, keys: Sequence[Key]) -> Mapping[Key, GraphRow]:
        """Return the rows of the chunks in the view's classes."""
        rows = self._view.rows(
            f"UNWIND $wanted AS pair MATCH (n:{self._view.store} {{chunk_id: pair[1]}})"
            f" WHERE n.source = pair[0] AND n.store_class IN $keys AND {VISIBLE}"
            " RETURN n.source, n.chunk_id, n.row, n.document",
            wanted=[list(key) for key in keys],
        )
        return {(source_id, chunk_id): GraphRow(row, document) for source_id, chunk_id, row, document in rows}

    def has_source(self, source_id: str) -> bool:
        """Return whether documents of a source were ever written."""
        return source_id in self._view.state.sources

    def documents(self, names: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return the documents whose id or title has each name, of those whose heads hold its words."""
        queries = [[name, query] for name in sorted(names) if (query := _headed(name))]
        rows = self._view.rows(
            "UNWIND $queries AS pair UNWIND $indexes AS name"
            " CALL { WITH pair, name CALL db.index.fulltext.queryNodes(name, pair[1]) YIELD node AS n"
            f" WITH n WHERE {self._source.condition.text} AND {VISIBLE}"
            " RETURN n.document AS document, min(n.row) AS row ORDER BY document LIMIT $most }"
            f" MATCH (c:{self._view.store} {{row: row}}) WHERE c:Chunk"
            " RETURN pair[0], document, c.indexed_at, c.chunk_id, c.content, c.fields ORDER BY document",
            queries=queries,
            indexes=[text_index(self._view.store, key) for key in self._view.keys],
            most=MOST_NAMED,
            **self._source.condition.values,
        )
        return grouped(
            (name, document)
            for name, document, at, chunk_id, content, fields in rows
            if belongs_to(decode((chunk_id, content, fields), at), name)
        )

    def sections(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[tuple[int, str | None]]]:
        """Return the row and the section number of each chunk of some documents."""
        rows = self._view.rows(
            f"UNWIND $documents AS row MATCH (n:Chunk)-[:BELONGS_TO]->(d:{self._view.store} {{row: row}})"
            " RETURN d.row, n.row, n.section_number ORDER BY n.row",
            documents=list(doc_keys),
        )
        return grouped((document, (row, section)) for document, row, section in rows)

    def beside(self, nodes: Sequence[GraphRow]) -> Mapping[int, Sequence[int]]:
        """Return the rows after and before each row in its document."""
        rows = self._view.rows(
            f"UNWIND $rows AS row MATCH (n:{self._view.store} {{row: row}})-[:NEXT_CHUNK]-(m)"
            " RETURN row, m.row ORDER BY m.row DESC",
            rows=[node.rid for node in nodes],
        )
        return grouped((row, other) for row, other in rows)
