"""A store in a Neo4j server: its sources are searched together; copies of it, for trials, stand under other labels."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from context_engine.adapters.sources.neo4j import rows
from context_engine.adapters.sources.neo4j.class_texts import NodeTexts, NodeWords, held_vectors
from context_engine.adapters.sources.neo4j.conditions import NOTHING, GraphView, ScopedNodes, scoped
from context_engine.adapters.sources.neo4j.graph import NodeGraph
from context_engine.adapters.sources.neo4j.search import NodeSearch
from context_engine.adapters.sources.neo4j.server import INGEST, GraphServer
from context_engine.adapters.sources.neo4j.state import (
    VISIBLE,
    WORDS_VERSION,
    class_indexes,
    lock_state,
    make_state,
    read_state,
    read_store,
    store_indexes,
    write_learnt,
)
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, decode
from context_engine.adapters.sources.stores.copies import CopiedStore, StoreName
from context_engine.adapters.sources.stores.learnt import LearningStore
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.trainable_store import READ_S
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Examination,
    HeldVectors,
    WholeDocument,
)
from context_engine.core.protocols import Clock, Embedder
from context_engine.errors import SourceBusy, SourceError

_TRIES: Final = 3
T = TypeVar("T")
_AT_ONCE: Final = 1_000
"""Numbers of nodes in one transaction."""


class Neo4jStore(LearningStore[GraphView, ScopedNodes, NodeSearch], CopiedStore):
    """A knowledge base in the nodes of a Neo4j database. Opened on first use; safe for many threads.

    Args:
        server: that has the store.
        store: its name.
        options: options of search.
        embedder: makes the vectors of questions; None: text search only.
        clock: measures the embedder's time.
    """

    _asking, _graph = NodeSearch, NodeGraph

    def __init__(
        self, server: GraphServer, store: StoreName, options: SearchOptions, embedder: Embedder | None, clock: Clock
    ) -> None:
        super().__init__(INGEST, options, embedder, clock)
        self._server, self._store, self._own = server, store.name, store

    def chunks(self, source_id: str) -> Iterator[Chunk]:
        """Yield every chunk of a source after one commit; none if the source is unknown."""
        with self._server.reading(READ_S) as transaction:
            state = read_state(transaction, self._store)
            for at, *row in transaction.stream(
                f"MATCH (n:{self._store}:Chunk {{source: $source}}) WHERE {VISIBLE}"
                " RETURN n.indexed_at, n.chunk_id, n.content, n.fields ORDER BY n.row",
                source=source_id, generation=state.generation,
            ):  # fmt: skip
                yield decode((row[0], row[1], row[2]), at)

    def examine(self, source_id: str, access: AccessScope | None, timeout_s: float) -> Examination:
        """Return what the server is and what it holds of a source."""

        def read(view: GraphView) -> Examination:
            ((version, edition),) = view.rows(
                "CALL dbms.components() YIELD name, versions, edition WHERE name = 'Neo4j Kernel'"
                " RETURN versions[0], edition"
            )
            ((documents,),) = view.rows(
                f"MATCH (n:{self._store}:Document {{source: $source}}) WHERE n.store_class IN $keys AND {VISIBLE}"
                " RETURN count(n)",
                source=source_id,
            )
            left = copies_of(view, self._own) if access is None else []
            return self._examination(
                source_id,
                view.keys,
                [f"its nodes have the label {name}, and its indexes begin with that name" for name in left],
                {},
                kind=f"Neo4j {version} {edition}",
                version=version,
                documents=documents,
                search_method="full text" if view.state.model_id is None else "full text, vectors",
            )

        return self._in_view(access, timeout_s, read)

    def rebuild(self) -> None:
        """Make every index of texts and vectors anew (`AccessProvable`)."""
        with self._opened(None, READ_S) as view:
            keys, dimension = view.keys, view.state.dimension
        self._server.change_schema(class_indexes(self._store, keys, dimension, anew=True))

    def _copy_as(self, name: str) -> None:
        copy_store(self._server, self._store, name)

    def _remove_copy(self, name: str) -> None:
        remove_store(self._server, name)

    def close(self) -> None:
        """Close the idle connections; a later call opens others."""
        self._server.close()

    def document_hashes(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return the hash of each document of a source, in the order of writing (`Copyable`)."""
        return self._in_view(None, READ_S, lambda view: rows.document_hashes(view, source_id))

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        """Yield documents as they are stored (`Copyable`)."""
        yield from self._in_view(None, READ_S, lambda view: rows.stored_documents(view, source_id, keys))

    def _in_view(self, access: AccessScope | None, timeout_s: float, read: Callable[[GraphView], T]) -> T:
        """Return what `read` gives for one commit.

        A writer removes what a commit has replaced when the next one is there. So a reader that meets both asks again.
        """
        for _ in range(_TRIES):
            with self._opened(access, timeout_s) as view:
                self._check_analysis(view.state.words_version, WORDS_VERSION)
                value = read(view)
                if read_state(view.transaction, self._store).cleaned <= view.state.generation:
                    return value
        raise SourceBusy("its documents changed during the search: ask again", retryable=True)

    @contextmanager
    def _opened(self, access: AccessScope | None, timeout_s: float) -> Iterator[GraphView]:
        with self._server.reading(timeout_s) as transaction:
            yield GraphView.read(transaction, self._store, access)

    @contextmanager
    def _learning(self) -> Iterator[GraphView]:
        with self._server.writing() as transaction:
            lock_state(transaction, self._store)
            view = GraphView.read(transaction, self._store)
            yield view
            write_learnt(transaction, self._store, view.learnt)

    def _scoped(self, view: GraphView, scopes: Sequence[Scope]) -> dict[str, ScopedNodes]:
        return {scope.source_id: scoped(view, scope) for scope in scopes if scope.source_id in view.state.sources}

    def _vocabulary(self, view: GraphView, rows: ScopedNodes | None, asked: Sequence[str]) -> NodeWords:
        return NodeWords(view, NOTHING if rows is None else rows.condition)

    def _fields(self, view: GraphView, rows: ScopedNodes) -> tuple[str, ...]:
        return view.fields_of(rows.source_id)

    def _fetched(
        self, view: GraphView, source_id: str, chunk_ids: Sequence[str], document_ids: Sequence[str]
    ) -> list[Chunk]:
        wanted = "n.source = $source AND (n.chunk_id IN $chunk_ids OR n.document_id IN $document_ids)"
        values = {"source": source_id, "chunk_ids": list(chunk_ids), "document_ids": list(document_ids)}
        return list(view.chunks(wanted, **values).values())

    def _texts(self, view: GraphView) -> NodeTexts:
        return NodeTexts(view)

    def _held_vectors(self, view: GraphView, source_ids: Sequence[str]) -> HeldVectors:
        return held_vectors(view, source_ids)

    def _is_placed(self, view: GraphView, source_id: str, place: SourcePlace) -> bool:
        holds = {each.key: each.holds for each in view.state.classes}
        rows = view.rows(
            f"MATCH (n:{view.store}:Document {{source: $source}}) WHERE {VISIBLE}"
            " RETURN DISTINCT n.store_class, n.claimed",
            source=source_id,
        )
        return all(place.holds(claimed) == holds[key] for key, claimed in rows)


_RELATIONS: Final = ("BELONGS_TO", "NEXT_CHUNK", "CITES")


def copy_store(server: GraphServer, store: str, target: str) -> None:
    """Copy the visible nodes of a store, and what it has learnt, to another store of the database.

    Raises:
        SourceNotFound: nothing was ever ingested.
        SourceError: the server failed, or documents changed meanwhile; nothing is left of the copy.
    """
    try:
        with server.writing() as transaction:
            lock_state(transaction, store)  # a commit waits: the counts of terms are those of the state
            view = GraphView.read(transaction, store)
            for kind in ("term", "field"):
                transaction.rows(f"MATCH (n:{store}_{kind}) CREATE (m:{target}_{kind}) SET m = properties(n)")
            make_state(transaction, target, view.state)
            _, learnt = read_store(transaction, target)
            learnt.adopt(view.learnt)
            write_learnt(transaction, target, learnt)
        server.change_schema(store_indexes(target))
        batches = range(0, view.state.next_row, _AT_ONCE)
        for change in (_copy_nodes, _copy_relations):
            for first in batches:
                with server.writing() as transaction:
                    change(view._replace(transaction=transaction), target, first)
        server.change_schema(class_indexes(target, view.keys, view.state.dimension, anew=False))
        with server.reading(60.0) as transaction:
            if read_state(transaction, store).cleaned > view.state.generation:
                raise SourceBusy("its documents changed meanwhile: try again", retryable=True)
    except SourceError:
        remove_store(server, target)
        raise


def remove_store(server: GraphServer, store: str) -> None:
    """Remove every node and index of a store."""
    with server.reading(60.0) as transaction:
        indexes = transaction.rows(
            "SHOW INDEXES YIELD name, owningConstraint WHERE name STARTS WITH $begin RETURN name, owningConstraint",
            begin=f"{store}_",
        )
    server.change_schema([f"DROP {'CONSTRAINT' if owner else 'INDEX'} {name} IF EXISTS" for name, owner in indexes])
    own = [f"(n:{store})", *(f"(n:{store}_{kind})" for kind in ("term", "field"))]
    kept = [f"(n:{kind} {{store: $store}})" for kind in ("Project", "ContextEngineMaps", "ContextEngineStore")]
    for nodes in (*own, *kept):
        deleted = _AT_ONCE
        while deleted == _AT_ONCE:
            with server.writing() as transaction:
                ((deleted,),) = transaction.rows(
                    f"MATCH {nodes} WITH n LIMIT {_AT_ONCE} DETACH DELETE n RETURN count(*)", store=store
                )


def copies_of(view: GraphView, store: StoreName) -> list[str]:
    """Return the names of the copies of a store."""
    rows = view.rows("MATCH (s:ContextEngineStore) WHERE s.store =~ $names RETURN s.store ORDER BY s.store",
                     names=store.copies)  # fmt: skip
    return [name for (name,) in rows]


def _copy_nodes(view: GraphView, target: str, first: int) -> None:
    labels = [("Document", "", "true")]
    labels += [
        (kind, f":{target}_{key}", f"n.store_class = {key}") for key in view.keys for kind in ("Chunk", "Passage")
    ]
    for kind, label, condition in labels:
        view.rows(
            f"MATCH (n:{view.store}) WHERE {_BATCH} AND n:{kind} AND {condition} AND {VISIBLE}"
            f" CREATE (m:{kind}:{target}{label}) SET m = properties(n) REMOVE m.died",
            first=first, end=first + _AT_ONCE,
        )  # fmt: skip


def _copy_relations(view: GraphView, target: str, first: int) -> None:
    of_batch = f"MATCH (n:{view.store}) WHERE {_BATCH} AND NOT n:Passage AND {VISIBLE}"
    own = f"MATCH (a:{target} {{row: n.row}}) WHERE NOT a:Passage"
    for kind in _RELATIONS:
        view.rows(
            f"{of_batch} MATCH (n)-[:{kind}]->(o:{view.store}) {own}"
            f" MATCH (b:{target} {{row: o.row}}) WHERE NOT b:Passage CREATE (a)-[:{kind}]->(b)",
            first=first, end=first + _AT_ONCE,
        )  # fmt: skip
    view.rows(
        f"{of_batch} MATCH (n)-[:BELONGS_TO]->(o:Project) {own} MERGE (p:Project {{store: $target, id: o.id}})"
        " CREATE (a)-[:BELONGS_TO]->(p)",
        target=target, first=first, end=first + _AT_ONCE,
    )  # fmt: skip


_BATCH: Final = "n.row >= $first AND n.row < $end"
