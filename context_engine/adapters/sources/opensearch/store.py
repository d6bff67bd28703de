"""A store in an OpenSearch server: its sources are searched together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeVar

from context_engine.adapters.sources.opensearch.conditions import (
    CHUNK_FIELDS,
    StoreView,
    any_of,
    both,
    chunk_of,
    fields_of,
)
from context_engine.adapters.sources.opensearch.search import IndexSearch, scoped
from context_engine.adapters.sources.opensearch.server import INGEST, Calls, OpenSearchServer, SearchBody
from context_engine.adapters.sources.opensearch.state import WORDS_VERSION, IndexState, StateDocument, other_model
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.places import SourcePlace
from context_engine.adapters.sources.stores.question import question_of
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.served_store import EMBEDDING_SHARE, ServedStoreBase
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Classification,
    Examination,
    Notice,
    NoticeCode,
    SourceAnswer,
    SourceQuery,
)
from context_engine.core.protocols import LEAST_RECALL, Clock, Embedder
from context_engine.errors import (
    SourceBusy,
    SourceError,
    SourceNotFound,
    SourceUnavailable,
    StoreVersionMismatch,
)

_LIST_S: Final = 600.0
_TRIES: Final = 3
_OF_DOCUMENTS: Final = {"term": {"kind": "document"}}
_OF_CHUNKS: Final = {"term": {"kind": "chunk"}}
T = TypeVar("T")


class OpenSearchStore(ServedStoreBase):
    """A knowledge base in the indices of an OpenSearch server. Opened on first use; safe for many threads.

    Args:
        server: that has the indices.
        prefix: begins the names of the indices.
        options: options of search.
        embedder: makes the vectors of questions; None: text search only.
        clock: measures the embedder's time.
    """

    def __init__(
        self, server: OpenSearchServer, prefix: str, options: SearchOptions, embedder: Embedder | None, clock: Clock
    ) -> None:
        super().__init__(INGEST, options, embedder, clock)
        self._server, self._prefix = server, prefix

    def answers(self, query: SourceQuery, scopes: Sequence[Scope], *, by_vector: bool = True) -> list[SourceAnswer]:
        """Return the best chunks of each of several sources of one domain.

        If shards failed, the answers have the chunks of the others, and the failure.
        Notes: query_shortened, no_vectors (an embedder is configured, but the store has no vectors), ann_recall_low
        (the graph of vectors missed too many neighbours: it is not used), source_unknown.

        Args:
            by_vector: whether to use the embedder, if one is configured.

        Raises:
            EmbedderError: the model gave no vector for the question, or none in time.
            RepartitionRequired: documents of a source are where former rules put them.
            SourceError, StoreVersionMismatch: the server failed, or indices or vectors are of another version or model.
        """
        question = question_of(query.words or query.text, self.options, query.expansions)
        calls = self._server.reading(query.timeout_s)
        vectors = self._vectors if by_vector else None
        vector, embedding = (
            (None, None) if vectors is None else vectors.timed(query.text, EMBEDDING_SHARE * query.timeout_s)
        )

        def read(view: StoreView) -> list[SourceAnswer]:
            stored, keys = view.state.model_id, [access_class.key for access_class in view.classes]
            self._require_model(stored, vector)
            notes = self._notes(question, keys, by_vector=vector is not None, has_vectors=stored is not None)
            for scope in scopes:
                self._check_place(view, scope.source_id, scope.place)
            search = IndexSearch(view, question, vector if view.state.model_id else None, self.options, self.watch)
            known = [scope for scope in scopes if scope.source_id in view.state.sources]
            chunks = search.best([scoped(view, scope) for scope in known], query.top_k)

            def answer(scope: Scope) -> SourceAnswer:
                if scope not in known and query.access is None:
                    return SourceAnswer(notes=(self._note(NoticeCode.SOURCE_UNKNOWN, scope.source_id, keys),))
                return SourceAnswer(
                    chunks=chunks.get(scope.source_id, ()),
                    notes=tuple(self._note(code, scope.source_id, keys) for code in notes),
                    failures=tuple(_of_source(failure, scope.source_id) for failure in calls.failures),
                    statistics=search.statistics,
                    filter_fields=None if scope.filters is None else fields_of(view, scope.source_id),
                    embedding=embedding if view.state.model_id else None,
                )

            return [answer(scope) for scope in scopes]

        return self._read(calls, query.access, read)

    def chunks(self, source_id: str) -> Iterator[Chunk]:
        """Yield every chunk of a source at one point in time; none if the source is unknown."""
        calls = self._server.reading(_LIST_S)
        state = StateDocument(calls, self._prefix).read()
        view = StoreView(calls, state, state.readable(None))
        rows = calls.snapshot(view.indices, both(state.visible, _OF_CHUNKS, _of(source_id)), CHUNK_FIELDS)
        return map(chunk_of, rows)

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
            SourceError: the server failed, or some of its shards.
        """
        wanted = [any_of("chunk_id", chunk_ids), any_of("document_id", document_ids)]
        query = both(_of(source_id), {"bool": {"should": wanted, "minimum_should_match": 1}})

        def read(view: StoreView) -> list[Chunk]:
            self._check_place(view, source_id, place)
            return [chunk_of(row) for row in view.rows(query, CHUNK_FIELDS)]

        return self._read_all(access, timeout_s, read)

    def version(self, access: AccessScope | None, timeout_s: float) -> str:
        """Return the version of the access classes that a caller may read (`Versioned`).

        Raises:
            SourceError, StoreVersionMismatch: the server failed, or the store is of another version.
        """
        state = StateDocument(self._server.reading(timeout_s), self._prefix).read()
        seen = (state.base_id, state.words_version, state.model_id, state.readable(access))
        return hashlib.sha256(repr(seen).encode()).hexdigest()

    def examine(self, source_id: str, access: AccessScope | None, timeout_s: float) -> Examination:
        """Return what the server is and what it holds of a source."""

        def read(view: StoreView) -> Examination:
            version = str(view.calls.ask("GET", "")["version"]["number"])
            query = both(view.state.visible, _OF_DOCUMENTS, _of(source_id))
            (result,) = view.search([{"size": 0, "track_total_hits": True, "query": query}])
            recall = self.watch.recall([access_class.key for access_class in view.classes])
            low = recall is not None and recall < LEAST_RECALL
            return Examination(
                kind=f"OpenSearch {version}",
                version=version,
                documents=result["hits"].get("total", {"value": 0})["value"],
                search_method="terms" if view.state.model_id is None else "terms, k-NN",
                warnings=(Notice(NoticeCode.ANN_RECALL_LOW, source_id, "ann_recall_low"),) if low else (),
                details={"indices": len(view.indices), **({} if recall is None else {"ann_recall": round(recall, 3)})},
            )

        return self._read_all(access, timeout_s, read)

    def close(self) -> None:
        """Close the idle connections; a later call opens others."""
        self._server.close()

    def _read_all(self, access: AccessScope | None, timeout_s: float, read: Callable[[StoreView], T]) -> T:
        """Return what `read` gives; raises the failure of a shard."""
        calls = self._server.reading(timeout_s)
        value = self._read(calls, access, read)
        if calls.failures:
            raise calls.failures[0]
        return value

    def _read(self, calls: Calls, access: AccessScope | None, read: Callable[[StoreView], T]) -> T:
        """Return what `read` gives for one commit.

        A writer removes what a commit has replaced when the next one is there. So a reader that meets both asks again.
        """
        document = StateDocument(calls, self._prefix)
        for _ in range(_TRIES):
            state = document.read()
            if state.words_version != WORDS_VERSION:
                raise StoreVersionMismatch(
                    f"its texts were analysed by version {state.words_version}, this program has {WORDS_VERSION}: "
                    f"'{INGEST}' analyses them again"
                )
            try:
                value = read(StoreView(calls, state, state.readable(access)))
            except SourceNotFound:
                if document.read().generation == state.generation:
                    raise
                continue
            if document.read().generation <= state.generation + 1:
                return value
            calls.failures.clear()
        raise SourceBusy("its documents changed during the search: ask again", retryable=True)

    def _require_model(self, stored: str | None, vector: Sequence[float] | None) -> None:
        """Refuse vectors of another model than the question's."""
        if vector is not None and stored is not None and self._embedder and stored != self._embedder.model_id:
            raise other_model(stored, self._embedder.model_id)

    def _check_place(self, view: StoreView, source_id: str, place: SourcePlace | None) -> None:
        if place is not None:
            generation = view.state.generation
            self._require_placed(source_id, place, generation, lambda: _is_placed(view, source_id, place))


def _of(source_id: str) -> Mapping[str, Any]:
    return {"term": {"source": source_id}}


def _of_source(failure: SourceError, source_id: str) -> SourceError:
    return SourceUnavailable(str(failure), source_id=source_id, retryable=failure.retryable)


def _is_placed(view: StoreView, source_id: str, place: SourcePlace) -> bool:
    body = {
        "size": 0,
        "query": both(view.state.visible, _OF_DOCUMENTS, _of(source_id)),
        "aggs": {"claimed": {"terms": {"field": "claimed", "size": len(Classification) + 1}}},
    }
    classes = view.state.classes
    results = view.calls.search([SearchBody([access_class.index_name], body) for access_class in classes])
    return all(
        place.holds(Classification(bucket["key"]) if bucket["key"] else None) == access_class.holds
        for access_class, result in zip(classes, results, strict=True)
        for bucket in result["aggregations"]["claimed"]["buckets"]
    )


def stored_documents(server: OpenSearchServer, prefix: str, source_id: str) -> Mapping[tuple[str, str], str]:
    """Return {(document_id, version): content_hash} of a source; nothing if there are no indices yet."""
    calls = server.writing()
    try:
        state: IndexState = StateDocument(calls, prefix).read()
    except SourceNotFound:
        return {}
    fields = ("document_id", "version", "content_hash")
    indices = [access_class.index_name for access_class in state.classes]
    rows = calls.snapshot(indices, both(state.visible, _OF_DOCUMENTS, _of(source_id)), fields)
    return {(row["document_id"], row["version"]): row["content_hash"] for row in rows}
