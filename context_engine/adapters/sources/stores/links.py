"""What chunks of a store lead to: the chunks beside them, the clauses and the documents that they cite.

No edge is stored: positions, section numbers, titles and ids give them for the snapshot of the search. So they are
right for every base, of any age, and hold for documents that were ingested after those that cite them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING, Final, Generic, NamedTuple, Protocol, TypeVar

from context_engine.core.models import Chunk, Edge, Key, Link, LinkOrigin
from context_engine.core.query.features import cited_sections

if TYPE_CHECKING:
    from context_engine.adapters.sources.stores.ranking import CheckedRows, ViewSearch

K = TypeVar("K")
T = TypeVar("T")
V = TypeVar("V")
R = TypeVar("R", bound="CheckedRows")
_MOST_CITED: Final = 16
"""Citations of a chunk that are followed; the rest of a list of references is not."""
_MOST_SECTIONS: Final = 4
OF_A_DOCUMENT: Final = 3
"""Chunks of a document that is cited as a whole: the best for the question."""
MOST_NAMED: Final = 200
"""Most rows or documents that are read for one name."""


class GraphRow(NamedTuple):
    """The row of a chunk, and of its document."""

    rid: int
    doc_key: int


class SourceGraph(Protocol):
    """The rows of one source in the snapshot of a search, without anything that the caller may not read."""

    def nodes(self, keys: Sequence[Key]) -> Mapping[Key, GraphRow]:
        """Return the rows of those chunks that the store has, also of its other sources."""
        ...

    def has_source(self, source_id: str) -> bool:
        """Return whether documents of a source were ever written to the store, whoever may read them."""
        ...

    def documents(self, names: Collection[str]) -> Mapping[str, Sequence[int]]:
        """Return the documents of the source whose id or title has each name (`citations.belongs_to`)."""
        ...

    def sections(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[tuple[int, str | None]]]:
        """Return the row and the section number of each chunk of some documents, in order."""
        ...

    def best(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[int]]:
        """Return the best `OF_A_DOCUMENT` rows of each of some documents for the question, by its words."""
        ...

    def beside(self, nodes: Sequence[GraphRow]) -> Mapping[int, Sequence[int]]:
        """Return the row after and the row before each row, in its document."""
        ...

    def scored(self, rids: Collection[int]) -> Mapping[int, Chunk]:
        """Return those of some rows that a search may find, with the scores that it gives if it finds them together."""
        ...


class SearchedGraph(Generic[V, R]):
    """What the graphs of sources in a view have in common on all servers (`SourceGraph`).

    Args:
        source: the rows that a search of the source may find.
        search: begins a search; called when the first row is scored, for most sources have nothing that is cited.
    """

    def __init__(self, view: V, source: R, search: Callable[[], ViewSearch[R]]) -> None:
        self._view, self._source, self._search = view, source, cache(search)

    def best(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[int]]:
        """Return the best rows of each document for the question, by its words."""
        ranked = self._search().ranked_in(self._source, doc_keys)
        return {document: rows[:OF_A_DOCUMENT] for document, rows in ranked.items()}

    def scored(self, rids: Collection[int]) -> Mapping[int, Chunk]:
        """Return the chunks that are in the scope, with their scores."""
        return self._search().measured(self._source, rids)


def grouped(pairs: Iterable[tuple[K, T]]) -> dict[K, list[T]]:
    """Return the values of each key, in their order."""
    groups: dict[K, list[T]] = {}
    for key, value in pairs:
        groups.setdefault(key, []).append(value)
    return groups


class _End(NamedTuple):
    """Where an edge leads to."""

    origin: Key
    edge: Edge
    rid: int


class _Target(NamedTuple):
    """A document that a chunk cites, and the rows of the cited clause; none if it is cited as a whole."""

    origin: Key
    doc_key: int
    clause: Sequence[int]


def links(
    graph: SourceGraph, source_id: str, origins: Sequence[LinkOrigin], edges: frozenset[Edge], top_k: int
) -> list[Link]:
    """Return the chunks of a source that the origins lead to, those of the best origins first, each chunk once.

    A chunk from another store leads to the documents that it cites by name. A chunk from this store is followed only if
    it is there and readable.

    Args:
        graph: of the source.
        top_k: most chunks returned.
    """
    nodes = graph.nodes([origin.key for origin in origins])
    foreign = {source for source in {origin.key[0] for origin in origins} if not graph.has_source(source)}
    known = [origin for origin in origins if origin.key in nodes or origin.key[0] in foreign]
    own = {key: node for key, node in nodes.items() if key[0] == source_id}
    ranks = {origin.key: rank for rank, origin in enumerate(known)}
    ends: dict[int, _End] = {}
    for end in sorted(
        (*_cited(graph, known, nodes, own, edges), *_beside(graph, own, edges)), key=lambda end: ranks[end.origin]
    ):
        ends.setdefault(end.rid, end)
    if not ends:
        return []
    siblings = {node.rid for node in own.values()}  # a chunk's score counts the best of its section
    chunks = graph.scored({*ends, *siblings})
    return [Link(end.origin, end.edge, chunks[rid]) for rid, end in ends.items() if rid in chunks][:top_k]


def _cited(
    graph: SourceGraph,
    origins: Sequence[LinkOrigin],
    nodes: Mapping[Key, GraphRow],
    own: Mapping[Key, GraphRow],
    edges: frozenset[Edge],
) -> Iterator[_End]:
    """Yield the cited clauses, and the best rows of the documents that are cited as a whole."""
    if edges.isdisjoint({Edge.CITES, Edge.BELONGS_TO}):
        return
    targets = list(_targets(graph, origins, own))
    whole = {target.doc_key for target in targets if _is_whole(target, nodes)}
    best = graph.best(whole) if whole and Edge.BELONGS_TO in edges else {}
    for target in targets:
        if Edge.CITES in edges:
            here = nodes.get(target.origin)
            clause = [rid for rid in target.clause if here is None or rid != here.rid]
            yield from (_End(target.origin, Edge.CITES, rid) for rid in clause)
        if _is_whole(target, nodes):
            yield from (_End(target.origin, Edge.BELONGS_TO, rid) for rid in best.get(target.doc_key, ()))


def _targets(graph: SourceGraph, origins: Sequence[LinkOrigin], own: Mapping[Key, GraphRow]) -> Iterator[_Target]:
    """Yield what each chunk cites; a chunk of another source cites its own document in that source."""
    cited = [(origin.key, citation) for origin in origins for citation in origin.citations[:_MOST_CITED]]
    names = {citation.document for _, citation in cited if citation.document}
    named = graph.documents(names) if names else {}
    documents = [
        (key, citation.clause, doc_key)
        for key, citation in cited
        for doc_key in (
            named.get(citation.document, ()) if citation.document else [own[key].doc_key] if key in own else []
        )
    ]
    read = {doc_key for _, clause, doc_key in documents if clause}
    sections = graph.sections(read) if read else {}
    for key, clause, doc_key in documents:
        rows = sections.get(doc_key, ()) if clause else ()
        places = cited_sections([section for _, section in rows], clause)[:_MOST_SECTIONS]
        yield _Target(key, doc_key, [rows[place][0] for place in places])


def _is_whole(target: _Target, nodes: Mapping[Key, GraphRow]) -> bool:
    here = nodes.get(target.origin)
    return not target.clause and (here is None or target.doc_key != here.doc_key)


def _beside(graph: SourceGraph, own: Mapping[Key, GraphRow], edges: frozenset[Edge]) -> Iterator[_End]:
    """Yield the rows beside the chunks of the source."""
    if own and Edge.NEXT_CHUNK in edges:
        rows = graph.beside(list(own.values()))
        for key, node in own.items():
            yield from (_End(key, Edge.NEXT_CHUNK, rid) for rid in rows.get(node.rid, ()))
