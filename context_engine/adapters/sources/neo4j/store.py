"""A store in a Neo4j server: its sources are searched together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from typing import Final, TypeVar

from context_engine.adapters.sources.neo4j.conditions import GraphView, scoped
from context_engine.adapters.sources.neo4j.search import NodeSearch
from context_engine.adapters.sources.neo4j.server import INGEST, GraphServer
from context_engine.adapters.sources.neo4j.state import VISIBLE, WORDS_VERSION, read_state
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.adapters.sources.stores.links import links
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.places import SourcePlace
from context_engine.adapters.sources.stores.question import StoreQuestion, question_of
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.served_store import EMBEDDING_SHARE, ServedStoreBase
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    Examination,
    Link,
    LinkQuery,
    Notice,
    NoticeCode,
    SourceAnswer,
    SourceQuery,
)
from context_engine.core.protocols import LEAST_RECALL, Clock, Embedder
from context_engine.errors import SourceBusy, StoreVersionMismatch

_LIST_S: Final = 600.0
_TRIES: Final = 3
T = TypeVar("T")


class Neo4jStore(ServedStoreBase):
    """A knowledge base in the nodes of a Neo4j database. Opened on first use; safe for many threads.

    Args:
        server: that has the store.
        store: its name.
        options: options of search.
        embedder: makes the vectors of questions; None: text search only.
        clock: measures the embedder's time.
    """

    def __init__(
        self, server: GraphServer, store: str, options: SearchOptions, embedder: Embedder | None, clock: Clock
    ) -> None:
        super().__init__(INGEST, options, embedder, clock)
        self._server, self._store = server, store

    def answers(self, query: SourceQuery, scopes: Sequence[Scope], *, by_vector: bool = True) -> list[SourceAnswer]:
        """Return the best chunks of each of several sources of one domain.

        Notes: query_shortened, no_vectors (an embedder is configured, but the store has no vectors), ann_recall_low
        (the index of vectors missed too many neighbours: it is not used), source_unknown.

        Args:
            by_vector: whether to use the embedder, if one is configured.

        Raises:
            EmbedderError: the model gave no vector for the question, or none in time.
            RepartitionRequired: documents of a source are where former rules put them.
            SourceError, StoreVersionMismatch: the server failed, or nodes or vectors are of another version or model.
        """
        question = question_of(query.words or query.text, self.options, query.expansions)
        vectors = self._vectors if by_vector else None
        vector, embedding = (
            (None, None) if vectors is None else vectors.timed(query.text, EMBEDDING_SHARE * query.timeout_s)
        )

        def read(view: GraphView) -> list[SourceAnswer]:
            has_vectors = view.state.model_id is not None
            notes = self._notes(question, view.keys, by_vector=vector is not None, has_vectors=has_vectors)
            for scope in scopes:
                self._check_place(view, scope.source_id, scope.place)
            search = self._search(view, question, vector)
            known = [scope for scope in scopes if scope.source_id in view.state.sources]
            chunks = search.best([scoped(view, scope) for scope in known], query.top_k)

            def answer(scope: Scope) -> SourceAnswer:
                if scope not in known and query.access is None:
                    return SourceAnswer(notes=(self._note(NoticeCode.SOURCE_UNKNOWN, scope.source_id, view.keys),))
                return SourceAnswer(
                    chunks=chunks.get(scope.source_id, ()),
                    notes=tuple(self._note(code, scope.source_id, view.keys) for code in notes),
                    statistics=search.ranker.statistics,
                    filter_fields=None if scope.filters is None else view.fields_of(scope.source_id),
                    embedding=embedding if has_vectors else None,
                )

            return [answer(scope) for scope in scopes]

        return self._read(query.access, query.timeout_s, read)

    def linked(self, query: LinkQuery, scope: Scope, *, by_vector: bool = True) -> list[Link]:
        """Return the chunks of a source that the origins of a query lead to; see `stores.links.links`.

        Args: and errors as in `answers`.
        """
        from context_engine.adapters.sources.neo4j.graph import NodeGraph  # few searches follow links

        asked = query.query
        question = question_of(asked.words or asked.text, self.options, asked.expansions)
        vector = None
        if self._vectors is not None and by_vector:
            vector = self._vectors.ask(asked.text, EMBEDDING_SHARE * asked.timeout_s)

        def read(view: GraphView) -> list[Link]:
            self._check_place(view, scope.source_id, scope.place)
            if question is None and (vector is None or view.state.model_id is None):
                return []
            graph = NodeGraph(view, scoped(view, scope), lambda: self._search(view, question, vector))
            return links(graph, scope.source_id, query.origins, query.edges, asked.top_k)

        return self._read(asked.access, asked.timeout_s, read)

    def chunks(self, source_id: str) -> Iterator[Chunk]:
        """Yield every chunk of a source after one commit; none if the source is unknown."""
        with self._server.reading(_LIST_S) as transaction:
            state = read_state(transaction, self._store)
            for at, *row in transaction.stream(
                f"MATCH (n:{self._store}:Chunk {{source: $source}}) WHERE {VISIBLE}"
                " RETURN n.indexed_at, n.chunk_id, n.content, n.fields ORDER BY n.row",
                source=source_id, generation=state.generation,
            ):  # fmt: skip
                yield decode((row[0], row[1], row[2]), at)

    def fetch(
        self,
        source_id: str,
        *,
        chunk_ids: Sequence[str] = (),
        document_ids: Sequence[str] = (),
        access: AccessScope | None = None,
        place: SourcePlace | None = None,
        timeout_s: float = 10.0,
    ) -> list[Chunk]:
        """Return the chunks with some ids and of some documents, each once, in the order of writing.

        Raises:
            RepartitionRequired: documents of the source are where former rules put them.
            SourceError: the server failed.
        """

        def read(view: GraphView) -> list[Chunk]:
            self._check_place(view, source_id, place)
            chunks = view.chunks(
                "n.source = $source AND (n.chunk_id IN $chunk_ids OR n.document_id IN $document_ids)",
                source=source_id,
                chunk_ids=list(chunk_ids),
                document_ids=list(document_ids),
            )
            return list(chunks.values())

        return self._read(access, timeout_s, read)

    def version(self, access: AccessScope | None, timeout_s: float) -> str:
        """Return the version of the access classes that a caller may read (`Versioned`).

        Raises:
            SourceError, StoreVersionMismatch: the server failed, or the store is of another version.
        """
        with self._server.reading(timeout_s) as transaction:
            state = read_state(transaction, self._store)
        seen = (state.base_id, state.words_version, state.model_id, state.readable(access))
        return hashlib.sha256(repr(seen).encode()).hexdigest()

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
            recall = self.watch.recall(view.keys)
            low = recall is not None and recall < LEAST_RECALL
            return Examination(
                kind=f"Neo4j {version} {edition}",
                version=version,
                documents=documents,
                search_method="full text" if view.state.model_id is None else "full text, vectors",
                warnings=(Notice(NoticeCode.ANN_RECALL_LOW, source_id, "ann_recall_low"),) if low else (),
                details={} if recall is None else {"ann_recall": round(recall, 3)},
            )

        return self._read(access, timeout_s, read)

    def close(self) -> None:
        """Close the idle connections; a later call opens others."""
        self._server.close()

    def _search(self, view: GraphView, question: StoreQuestion | None, vector: Sequence[float] | None) -> NodeSearch:
        """Return a search by text, and by the vector if the store has vectors.

        Raises:
            StoreVersionMismatch: they are of another model.
        """
        stored = view.state.model_id
        if vector is not None:
            self._check_model(stored)
        return NodeSearch(view, question, None if stored is None else vector, self.options, self.watch)

    def _read(self, access: AccessScope | None, timeout_s: float, read: Callable[[GraphView], T]) -> T:
        """Return what `read` gives for one commit.

        A writer removes what a commit has replaced when the next one is there. So a reader that meets both asks again.
        """
        for _ in range(_TRIES):
            with self._server.reading(timeout_s) as transaction:
                state = read_state(transaction, self._store)
                if state.words_version != WORDS_VERSION:
                    raise StoreVersionMismatch(
                        f"its texts were analysed by version {state.words_version}, this program has {WORDS_VERSION}: "
                        f"'{INGEST}' analyses them again"
                    )
                value = read(GraphView(transaction, self._store, state, state.readable(access)))
                if read_state(transaction, self._store).cleaned <= state.generation:
                    return value
        raise SourceBusy("its documents changed during the search: ask again", retryable=True)

    def _check_place(self, view: GraphView, source_id: str, place: SourcePlace | None) -> None:
        if place is not None:
            generation = view.state.generation
            self._require_placed(source_id, place, generation, lambda: _is_placed(view, source_id, place))


def _is_placed(view: GraphView, source_id: str, place: SourcePlace) -> bool:
    holds = {each.key: each.holds for each in view.state.classes}
    rows = view.rows(
        f"MATCH (n:{view.store}:Document {{source: $source}}) WHERE {VISIBLE} RETURN DISTINCT n.store_class, n.claimed",
        source=source_id,
    )
    return all(place.holds(Classification(claimed) if claimed else None) == holds[key] for key, claimed in rows)
