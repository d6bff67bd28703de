"""The rows of a store as a graph: positions, section numbers, titles and ids give its edges, each kind in one query.

No table of edges is written: tables of any version have what is read here.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cache
from typing import Final, TypeVar

from psycopg import sql

from context_engine.adapters.sources.postgres.attributes import storable, tsquery
from context_engine.adapters.sources.postgres.search import ScopedRows, SnapshotView, StoreSearch, chunks_of, where
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.links import MOST_NAMED, OF_A_DOCUMENT, GraphRow
from context_engine.adapters.sources.stores.question import LookUp, kept
from context_engine.core.models import Chunk, Key
from context_engine.core.query.features import belongs_to, spellings
from context_engine.core.text import terms

K = TypeVar("K")
T = TypeVar("T")
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


def _grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    groups: dict[K, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


def _headed(name: str) -> str:
    """Return the `tsquery` for the heads that hold all words of a name, in one of its spellings; "" without words."""
    forms = [[kept(term) for term in terms(spelling)] for spelling in spellings(name)]
    return " | ".join(" & ".join(tsquery(LookUp(term, True, 1.0)) for term in form) for form in forms if form)


class StoreGraph:
    """The rows of a source in a view (`SourceGraph`).

    Args:
        search: begins a search; called when the first row is scored, for most sources have nothing that is cited.
    """

    def __init__(self, view: SnapshotView, source: ScopedRows, search: Callable[[], StoreSearch]) -> None:
        self._view, self._source, self._search = view, source, cache(search)

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
        return _grouped((name, doc_key) for name, doc_key, at, *row in rows if belongs_to(decode(tuple(row), at), name))

    def sections(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[tuple[int, str | None]]]:
        """Return the row and the section number of each chunk of some documents."""
        rows = self._view.session.execute(_SECTIONS, (list(doc_keys),))
        return _grouped((doc_key, (rid, section)) for doc_key, rid, section in rows)

    def best(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[int]]:
        """Return the best rows of each document for the question, by its words."""
        ranked = self._search().ranked_in(self._source, doc_keys)
        return {doc_key: rids[:OF_A_DOCUMENT] for doc_key, rids in ranked.items()}

    def beside(self, nodes: Sequence[GraphRow]) -> Mapping[int, Sequence[int]]:
        """Return the rows after and before each row in its document."""
        return _grouped(self._view.session.execute(_BESIDE, ([node.rid for node in nodes],)))

    def scored(self, rids: Collection[int]) -> Mapping[int, Chunk]:
        """Return the chunks that are in the scope, with their scores."""
        rows = self._search().measured(self._source, rids)
        chunks, test = chunks_of(self._view, rows.rows), self._source.test
        return {
            rid: chunk._replace(scores=rows.scores(rid)) for rid, chunk in chunks.items() if test is None or test(chunk)
        }
