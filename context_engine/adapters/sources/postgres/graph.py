"""The rows of a store as a graph: positions, section numbers, titles and ids give its edges, each kind in one query.

No table of edges is written: tables of any version have what is read here.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Final

from psycopg import sql

from context_engine.adapters.sources.postgres.attributes import storable, tsquery
from context_engine.adapters.sources.postgres.search import ScopedRows, SnapshotView, where
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.links import MOST_NAMED, GraphRow, SearchedGraph, grouped
from context_engine.adapters.sources.stores.question import LookUp, head_forms
from context_engine.core.models import Key
from context_engine.core.query.features import belongs_to

_NODES: Final = (
    "SELECT source_id, chunk_id, rid, doc_key FROM unnest(%s::text[], %s::text[]) AS wanted (source_id, chunk_id)"
    " JOIN sources USING (source_id) JOIN chunks USING (source_key, chunk_id) JOIN documents USING (doc_key)"
    " WHERE class_key = ANY(%s)"
)
_HEADED: Final = """
SELECT name, documents.doc_key, indexed_at, chunk_id, content, fields
FROM unnest(%(names)s::text[], %(queries)s::tsquery[]) AS wanted (name, query)
CROSS JOIN LATERAL (
    SELECT doc_key, min(rid) AS first FROM words WHERE class_key = ANY({classes}) AND terms @@ query AND {condition}
    GROUP BY doc_key ORDER BY doc_key LIMIT %(most)s
) AS headed JOIN documents USING (doc_key) JOIN chunks ON rid = first
ORDER BY documents.doc_key
"""
_SECTIONS: Final = (  # to the server, JSON with an escaped NUL is no JSON
    "SELECT doc_key, rid, replace(fields, '\\u0000', '\\u0020')::json ->> 'section' FROM chunks"
    " WHERE doc_key = ANY(%s) ORDER BY rid"
)
_BESIDE: Final = (
    "SELECT here.rid, beside.rid FROM chunks AS here JOIN chunks AS beside USING (doc_key)"
    " WHERE here.rid = ANY(%s) AND beside.rid IN (here.rid + 1, here.rid - 1) ORDER BY beside.rid DESC"
)


def _headed(name: str) -> str:
    """Return the `tsquery` for the heads that hold all words of a name, in one of its spellings; "" without words."""
    return " | ".join(" & ".join(tsquery(LookUp(term, True, 1.0)) for term in form) for form in head_forms(name))


class StoreGraph(SearchedGraph[SnapshotView, ScopedRows]):
    """The rows of a source in a view."""

    def nodes(self, keys: Sequence[Key]) -> Mapping[Key, GraphRow]:
        """Return the rows of the chunks in the view's classes."""
        wanted = [key for key in keys if storable(key[0]) and storable(key[1])]
        columns = ([source_id for source_id, _ in wanted], [chunk_id for _, chunk_id in wanted])
        rows = self._view.session.execute(_NODES, (*columns, self._view.classes))
        return {(source_id, chunk_id): GraphRow(rid, doc_key) for source_id, chunk_id, rid, doc_key in rows}

    def has_source(self, source_id: str) -> bool:
        """Return whether documents of a source were ever written."""
        query = "SELECT true FROM sources WHERE source_id = %s"
        return storable(source_id) and self._view.session.execute(query, (source_id,)).fetchone() is not None

    def documents(self, names: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return the documents whose id or title has each name, of those whose heads hold its words."""
        queries = {name: query for name in sorted(names) if storable(name) and (query := _headed(name))}
        rows = self._view.session.execute(
            sql.SQL(_HEADED).format(classes=sql.Literal(self._view.classes), condition=where([self._source])),
            {"names": list(queries), "queries": list(queries.values()), "most": MOST_NAMED},
        )
        return grouped((name, doc_key) for name, doc_key, at, *row in rows if belongs_to(decode(tuple(row), at), name))

    def sections(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[tuple[int, str | None]]]:
        """Return the row and the section number of each chunk of some documents."""
        rows = self._view.session.execute(_SECTIONS, (list(doc_keys),))
        return grouped((doc_key, (rid, section)) for doc_key, rid, section in rows)

    def beside(self, nodes: Sequence[GraphRow]) -> Mapping[int, Sequence[int]]:
        """Return the rows after and before each row in its document."""
        return grouped(self._view.session.execute(_BESIDE, ([node.rid for node in nodes],)))
