"""A store in a Neo4j server: its sources are searched together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from context_engine.adapters.sources.neo4j import copies, copy_sink
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
    read_state,
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
    Classification,
    Examination,
    HeldVectors,
    WholeDocument,
)
from context_engine.core.protocols import Clock, Embedder
from context_engine.errors import SourceBusy

_TRIES: Final = 3
T = TypeVar("T")


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
            left = copies.copies_of(view, self._own) if access is None else []
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
        copies.copy_store(self._server, self._store, name)

    def _remove_copy(self, name: str) -> None:
        copies.remove_store(self._server, name)

    def close(self) -> None:
        """Close the idle connections; a later call opens others."""
        self._server.close()

    def document_hashes(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return the hash of each document of a source, in the order of writing (`Copyable`)."""
        return self._in_view(None, READ_S, lambda view: copy_sink.document_hashes(view, source_id))

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        """Yield documents as they are stored (`Copyable`)."""
        yield from self._in_view(None, READ_S, lambda view: copy_sink.stored_documents(view, source_id, keys))

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
        return all(place.holds(Classification(claimed) if claimed else None) == holds[key] for key, claimed in rows)
