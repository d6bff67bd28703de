"""The toy store as a graph: its chunks, numbered in the order in which it lists them."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from context_engine.adapters.sources.stores.links import OF_A_DOCUMENT, GraphRow, links
from context_engine.core.models import Chunk, Key, Link, LinkQuery, Score, ScoreKind, SourceQuery
from context_engine.core.policy.filters import matches, own_fields
from context_engine.core.query.features import belongs_to

if TYPE_CHECKING:
    from tests.toy_store import ToyStore


def linked(store: ToyStore, source_id: str, query: LinkQuery) -> list[Link]:
    rows = list(store.readable({key[0] for key in store.documents}, query.query.access))
    names = [(name, chunk.document_id, chunk.document_version) for name, chunk in rows]
    graph = ToyGraph(store, source_id, query.query, rows, [names.index(name) for name in names])
    return links(graph, source_id, query.origins, query.edges, query.query.top_k)


class ToyGraph(NamedTuple):
    """A document has the number of its first row."""

    store: ToyStore
    source_id: str
    query: SourceQuery
    rows: Sequence[tuple[str, Chunk]]
    doc_keys: Sequence[int]

    def nodes(self, keys: Sequence[Key]) -> Mapping[Key, GraphRow]:
        every = {
            (name, chunk.chunk_id): GraphRow(rid, self.doc_keys[rid]) for rid, (name, chunk) in enumerate(self.rows)
        }
        return {key: every[key] for key in keys if key in every}

    def has_source(self, source_id: str) -> bool:
        return any(key[0] == source_id for key in self.store.documents)

    def documents(self, names: Collection[str]) -> Mapping[str, Sequence[int]]:
        own = {doc_key: self.rows[doc_key] for doc_key in self.doc_keys}
        return {
            name: [key for key, (source, chunk) in own.items() if source == self.source_id and belongs_to(chunk, name)]
            for name in names
        }

    def sections(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[tuple[int, str | None]]]:
        return {key: [(rid, self.rows[rid][1].section) for rid in self.of(key)] for key in doc_keys}

    def best(self, doc_keys: Collection[int]) -> Mapping[int, Sequence[int]]:
        return {key: list(self.matching(self.of(key)))[:OF_A_DOCUMENT] for key in doc_keys}

    def beside(self, nodes: Sequence[GraphRow]) -> Mapping[int, Sequence[int]]:
        return {
            node.rid: [rid for rid in (node.rid + 1, node.rid - 1) if rid in self.of(node.doc_key)] for node in nodes
        }

    def scored(self, rids: Collection[int]) -> Mapping[int, Chunk]:
        own = {rid: self.rows[rid][1] for rid in rids if self.is_in_scope(*self.rows[rid])}
        kind = ScoreKind.COSINE if self.store.embedder else ScoreKind.LEXICAL
        return {rid: chunk._replace(scores=(Score(kind, 0.0),)) for rid, chunk in own.items()} | self.matching(own)

    def matching(self, rids: Collection[int]) -> dict[int, Chunk]:
        own = {self.rows[rid][1].chunk_id: rid for rid in rids}
        chunks = [self.rows[rid][1] for rid in rids]
        every = replace(self.query, top_k=len(chunks))
        answer = self.store.ranked(chunks, every, by_vector=self.store.embedder is not None)
        return {own[chunk.chunk_id]: chunk for chunk in answer.chunks}

    def of(self, doc_key: int) -> list[int]:
        return [rid for rid, key in enumerate(self.doc_keys) if key == doc_key]

    def is_in_scope(self, source_id: str, chunk: Chunk) -> bool:
        query = self.query
        return (
            source_id == self.source_id
            and (query.filters is None or matches(query.filters, own_fields(chunk)))
            and (query.as_of is None or chunk.effective_to is None or query.as_of < chunk.effective_to)
        )
