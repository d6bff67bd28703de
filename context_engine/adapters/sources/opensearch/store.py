"""A store in an OpenSearch server: its sources are searched together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Final, TypeVar

from context_engine.adapters.sources.opensearch import copy_sink
from context_engine.adapters.sources.opensearch.class_texts import IndexTexts, held_vectors, is_placed
from context_engine.adapters.sources.opensearch.conditions import (
    CHUNK_FIELDS,
    NOTHING,
    StoreView,
    any_of,
    both,
    chunk_of,
    fields_of,
)
from context_engine.adapters.sources.opensearch.graph import IndexGraph, IndexWords
from context_engine.adapters.sources.opensearch.search import IndexSearch, scoped
from context_engine.adapters.sources.opensearch.server import INGEST, Calls, OpenSearchServer
from context_engine.adapters.sources.opensearch.state import WORDS_VERSION, StateDocument, change_learnt
from context_engine.adapters.sources.stores.adapter_keeping import AdapterReader
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin
from context_engine.adapters.sources.stores.links import links
from context_engine.adapters.sources.stores.misspelt import looked_up, unknown_words
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.places import SourcePlace
from context_engine.adapters.sources.stores.question import StoreQuestion, question_of
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.served_store import EMBEDDING_SHARE
from context_engine.adapters.sources.stores.trainable_store import (
    READ_S,
    KeptCalibration,
    TrainableStore,
    embedding_under,
    unusable,
)
from context_engine.core.models import (
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    ClassCalibration,
    Examination,
    HeldVectors,
    Link,
    LinkQuery,
    Notice,
    NoticeCode,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
    WholeDocument,
)
from context_engine.core.protocols import LEAST_RECALL, Clock, Embedder
from context_engine.core.query.spelling import words_to_check
from context_engine.errors import (
    SourceBusy,
    SourceError,
    SourceNotFound,
    SourceUnavailable,
    StoreError,
    StoreVersionMismatch,
)

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

_TRIES: Final = 3
_OF_DOCUMENTS: Final = {"term": {"kind": "document"}}
_OF_CHUNKS: Final = {"term": {"kind": "chunk"}}
T = TypeVar("T")


class OpenSearchStore(TrainableStore[StoreView]):
    """A knowledge base in the indices of an OpenSearch server. Opened on first use; safe for many threads.

    Args:
        server: that has the indices.
        prefix: begins the names of the indices.
        options: options of search.
        embedder: makes the vectors of questions; None: text search only.
        clock: measures the embedder's time, and dates what is kept.
    """

    def __init__(
        self, server: OpenSearchServer, prefix: str, options: SearchOptions, embedder: Embedder | None, clock: Clock
    ) -> None:
        super().__init__(INGEST, options, embedder, clock)
        self._server, self._prefix = server, prefix
        self._now, self._adapters = clock.now, AdapterReader()

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
            notes = self._notes(question, keys, by_vector=vector is not None, has_vectors=stored is not None)
            for scope in scopes:
                self._check_place(view, scope.source_id, scope.place)
            search, not_usable = self._search(view, question, vector, query.domain)
            known = [scope.source_id for scope in scopes if scope.source_id in view.state.sources]
            sources = {scope.source_id: scoped(view, scope) for scope in scopes if scope.source_id in known}
            chunks = search.best(list(sources.values()), query.top_k)
            calibration = self._calibration(view, query.domain, search.scorer_id)
            used = embedding_under(embedding, search.scorer_id, search.adapter)
            asked = words_to_check(query.text)

            def answer(scope: Scope) -> SourceAnswer:
                if scope.source_id not in known and query.access is None:
                    return SourceAnswer(notes=(self._note(NoticeCode.SOURCE_UNKNOWN, scope.source_id, keys),))
                own = chunks.get(scope.source_id, [])
                rows = sources[scope.source_id].query if scope.source_id in sources else NOTHING
                words = IndexWords(view, rows, asked)
                return SourceAnswer(
                    chunks=own,
                    notes=(
                        *(self._note(code, scope.source_id, keys) for code in notes),
                        *unusable(not_usable, scope.source_id),
                    ),
                    failures=tuple(_of_source(failure, scope.source_id) for failure in calls.failures),
                    statistics=search.statistics,
                    calibration=calibration,
                    unknown_words=unknown_words(asked, own, partial(looked_up, words)),
                    filter_fields=None if scope.filters is None else fields_of(view, scope.source_id),
                    embedding=used,
                )

            return [answer(scope) for scope in scopes]

        return self._read(calls, query.access, read)

    def linked(self, query: LinkQuery, scope: Scope, *, by_vector: bool = True) -> list[Link]:
        """Return the chunks of a source that the origins of a query lead to; see `stores.links.links`.

        Args: and errors as in `answers`; a failed shard is an error too.
        """
        asked = query.query
        question = question_of(asked.words or asked.text, self.options, asked.expansions)
        vectors = self._vectors if by_vector else None
        vector = None if vectors is None else vectors.ask(asked.text, EMBEDDING_SHARE * asked.timeout_s)

        def read(view: StoreView) -> list[Link]:
            self._check_place(view, scope.source_id, scope.place)
            nothing = question is None and (vector is None or view.model_id is None)
            if nothing or scope.source_id not in view.state.sources:
                return []
            graph = IndexGraph(view, scoped(view, scope), lambda: self._search(view, question, vector, asked.domain)[0])
            return links(graph, scope.source_id, query.origins, query.edges, asked.top_k)

        return self._in_view(asked.access, asked.timeout_s, read)

    def chunks(self, source_id: str) -> Iterator[Chunk]:
        """Yield every chunk of a source at one point in time; none if the source is unknown."""
        calls = self._server.reading(READ_S)
        view = StoreView.read(calls, self._prefix)
        rows = calls.snapshot(view.indices, both(view.state.visible, _OF_CHUNKS, _of(source_id)), CHUNK_FIELDS)
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

        return self._in_view(access, timeout_s, read)

    def version(self, access: AccessScope | None, timeout_s: float) -> str:
        """Return the version of the access classes that a caller may read (`Versioned`).

        Raises:
            SourceError, StoreVersionMismatch: the server failed, or the store is of another version.
        """
        view = StoreView.read(self._server.reading(timeout_s), self._prefix, access)
        state = view.state
        seen = (state.base_id, state.words_version, state.model_id, view.classes, view.learnt.version(view.keys))
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

        return self._in_view(access, timeout_s, read)

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Replace the calibrations of a plan (`Calibratable`)."""
        rows = [(part.scorer_id, part.key, calibration, part.state) for part, calibration in found]
        change_learnt(
            self._server.writing(), self._prefix, lambda learnt: learnt.replace_calibrations(domain, plan.state, rows)
        )

    def document_hashes(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return the hash of each document of a source, in the order of writing (`Copyable`)."""
        return self._in_view(None, READ_S, lambda view: copy_sink.document_hashes(view, source_id))

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        """Yield documents as they are stored (`Copyable`)."""
        yield from self._in_view(None, READ_S, lambda view: copy_sink.stored_documents(view, source_id, keys))

    def class_calibrations(self, domain: str) -> list[ClassCalibration]:
        """Return the calibrations of a domain for each scorer and access class (`Copyable`)."""

        def read(view: StoreView) -> list[ClassCalibration]:
            holds = {access_class.key: access_class.holds for access_class in view.classes}
            kept = sorted(view.learnt.calibrations(domain).items())
            return [ClassCalibration(holds[key], each.calibration) for (_, key), each in kept if key in holds]

        return self._in_view(None, READ_S, read)

    def close(self) -> None:
        """Close the idle connections; a later call opens others."""
        self._server.close()

    def _in_view(self, access: AccessScope | None, timeout_s: float, read: Callable[[StoreView], T]) -> T:
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
            view = StoreView.read(calls, self._prefix, access)
            state = view.state
            if state.words_version != WORDS_VERSION:
                raise StoreVersionMismatch(
                    f"its texts were analysed by version {state.words_version}, this program has {WORDS_VERSION}: "
                    f"'{INGEST}' analyses them again"
                )
            try:
                value = read(view)
            except SourceNotFound:
                if document.read().generation == state.generation:
                    raise
                continue
            if document.read().generation <= state.generation + 1:
                return value
            calls.failures.clear()
        raise SourceBusy("its documents changed during the search: ask again", retryable=True)

    def _search(
        self, view: StoreView, question: StoreQuestion | None, vector: Sequence[float] | None, domain: str
    ) -> tuple[IndexSearch, str]:
        """Return a search by text, and by the vector if the store has vectors; and the id of an adapter that cannot be
        used.

        Raises:
            StoreVersionMismatch: they are of another model.
        """
        if vector is None or view.model_id is None:
            return IndexSearch(view, question, None, self.options, self.watch), ""
        self._check_model(view.model_id)
        adapter, not_usable = self._chosen(view, domain)
        return IndexSearch(view, question, vector, self.options, self.watch, adapter), not_usable

    def _best_of(
        self,
        view: StoreView,
        query: SourceQuery,
        source_ids: Sequence[str],
        vector: Sequence[float] | None,
        adapter: DomainAdapter | None,
    ) -> SourceAnswer:
        question = question_of(query.words or query.text, self.options, query.expansions)
        known = [Scope(source_id=source_id) for source_id in source_ids if source_id in view.state.sources]
        search = IndexSearch(view, question, vector if view.model_id else None, self.options, self.watch, adapter)
        chunks = chain.from_iterable(search.best([scoped(view, scope) for scope in known], query.top_k).values())
        best = sorted(chunks, key=lambda chunk: -chunk.scores[0].value)[: query.top_k]
        return SourceAnswer(chunks=best, statistics=search.statistics)

    def _rows(self, view: StoreView) -> AdapterRows:
        return view.adapters

    def _texts(self, view: StoreView) -> IndexTexts:
        return IndexTexts(view)

    def _kept_calibrations(self, view: StoreView, domain: str) -> Mapping[tuple[str, int], KeptCalibration]:
        return view.learnt.calibrations(domain)

    def _held_vectors(self, view: StoreView, source_ids: Sequence[str]) -> HeldVectors:
        return held_vectors(view, source_ids)

    @contextmanager
    def _adapter_rows(self, access: AccessScope | None) -> Iterator[tuple[AdapterRows, list[int]]]:
        view = StoreView.read(self._server.reading(READ_S), self._prefix, access)
        yield view.adapters, view.keys

    @contextmanager
    def _writing_adapters(self, origin: Origin | None = None) -> Iterator[AdapterRows]:
        view = StoreView.read(self._server.writing(), self._prefix)
        if origin is not None and origin.state != view.learnt.moves:
            raise StoreError("documents have changed their access class meanwhile: learn the adapter again")
        yield view.adapters
        view.learnt.write()

    def _check_place(self, view: StoreView, source_id: str, place: SourcePlace | None) -> None:
        if place is not None:
            generation = view.state.generation
            self._require_placed(source_id, place, generation, lambda: is_placed(view, source_id, place))


def _of(source_id: str) -> Mapping[str, Any]:
    return {"term": {"source": source_id}}


def _of_source(failure: SourceError, source_id: str) -> SourceError:
    return SourceUnavailable(str(failure), source_id=source_id, retryable=failure.retryable)
