"""The searches of a store in a server: what does not depend on the server."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, Vocabulary, looked_up, unknown_words
from context_engine.adapters.sources.stores.links import SourceGraph, links
from context_engine.adapters.sources.stores.question import StoreQuestion, question_of
from context_engine.adapters.sources.stores.ranking import CheckedRows, ViewSearch
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.served_store import EMBEDDING_SHARE
from context_engine.adapters.sources.stores.trainable_store import (
    ClassView,
    T,
    TrainableStore,
    embedding_under,
    unusable,
)
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Examination,
    Link,
    LinkQuery,
    NoticeCode,
    SourceAnswer,
    SourceQuery,
)
from context_engine.core.query.spelling import words_to_check
from context_engine.errors import SourceError

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

V = TypeVar("V", bound=ClassView)
R = TypeVar("R", bound=CheckedRows)
Q = TypeVar("Q", bound=ViewSearch[Any])


class SearchedStore(TrainableStore[V], Generic[V, R, Q]):
    """A store in a server that is searched; V is a view of it, R the rows of a source, Q a question to a view."""

    _asking: Callable[..., Q]
    """Makes a search of a view, a question, a vector, options, a watch and an adapter."""
    _graph: Callable[..., SourceGraph]
    """Makes a graph of a view, rows, and what begins a search."""

    if TYPE_CHECKING:

        def examine(self, source_id: str, access: AccessScope | None, timeout_s: float) -> Examination:
            """Return what the server is and what it holds of a source."""

        def chunks(self, source_id: str) -> Iterator[Chunk]:
            """Yield every chunk of a source in one snapshot; none if the source is unknown."""

        def close(self) -> None:
            """Close the idle connections; a later call opens others."""

        def _scoped(self, view: V, scopes: Sequence[Scope]) -> Mapping[str, R]:
            """Return the rows of each source that was ever written, by its id."""

        def _vocabulary(self, view: V, rows: R | None, asked: Sequence[str]) -> Vocabulary:
            """Return the words of a source; none of one that was never written."""

        def _fields(self, view: V, rows: R) -> tuple[str, ...]:
            """Return the fields of a source's chunks."""

        def _fetched(
            self, view: V, source_id: str, chunk_ids: Sequence[str], document_ids: Sequence[str]
        ) -> list[Chunk]: ...

        def _is_placed(self, view: V, source_id: str, place: SourcePlace) -> bool:
            """Return whether every document of a source, readable or not, is in the class of its place."""

    def answers(self, query: SourceQuery, scopes: Sequence[Scope], *, by_vector: bool = True) -> list[SourceAnswer]:
        """Return the best chunks of each of several sources of one domain.

        Notes: query_shortened, no_vectors (an embedder is configured, but the store has no vectors), ann_recall_low
        (the index of vectors missed too many neighbours: it is not used), source_unknown, adapter_unusable.

        Args:
            by_vector: whether to use the embedder, if one is configured.

        Raises:
            EmbedderError: the model gave no vector for the question, or none in time.
            RepartitionRequired: documents of a source are where former rules put them.
            SourceError, StoreVersionMismatch: the server failed, or texts or vectors are of another version or model.
        """
        question = question_of(query.words or query.text, self.options, query.expansions)
        vectors = self._vectors if by_vector else None
        vector, embedding = (
            (None, None) if vectors is None else vectors.timed(query.text, EMBEDDING_SHARE * query.timeout_s)
        )
        asked = words_to_check(query.text)

        def read(view: V) -> list[SourceAnswer]:
            for scope in scopes:
                self._check_place(view, scope.source_id, scope.place)
            has_vectors = view.state.model_id is not None
            codes = self._notes(question, view.keys, by_vector=vector is not None, has_vectors=has_vectors)
            search, missed = self._search(view, question, vector, query.domain)
            sources = self._scoped(view, scopes)
            chunks = search.best(list(sources.values()), query.top_k)
            calibration = self._calibration(view, query.domain, search.scorer_id)
            used = embedding_under(embedding, search.scorer_id, search.adapter)

            def answer(scope: Scope) -> SourceAnswer:
                source_id, rows = scope.source_id, sources.get(scope.source_id)
                if rows is None and query.access is None:
                    return SourceAnswer(notes=(self._note(NoticeCode.SOURCE_UNKNOWN, source_id, view.keys),))
                own, words = chunks.get(source_id, ()), self._vocabulary(view, rows, asked)
                fields = () if rows is None or scope.filters is None else self._fields(view, rows)
                notes = [self._note(code, source_id, view.keys) for code in codes]
                return SourceAnswer(
                    chunks=own,
                    notes=(*notes, *unusable(missed, source_id)),
                    failures=self._failures(view, source_id),
                    statistics=search.statistics,
                    calibration=calibration,
                    unknown_words=unknown_words(asked, own, partial(looked_up, words)),
                    filter_fields=None if scope.filters is None else fields,
                    embedding=used,
                )

            return [answer(scope) for scope in scopes]

        return self._in_partial_view(query.access, query.timeout_s, read)

    def linked(self, query: LinkQuery, scope: Scope, *, by_vector: bool = True) -> list[Link]:
        """Return the chunks of a source that the origins of a query lead to; see `stores.links.links`.

        Arguments and errors are those of `answers`.
        """
        asked = query.query
        question = question_of(asked.words or asked.text, self.options, asked.expansions)
        vectors = self._vectors if by_vector else None
        vector = None if vectors is None else vectors.ask(asked.text, EMBEDDING_SHARE * asked.timeout_s)

        def read(view: V) -> list[Link]:
            self._check_place(view, scope.source_id, scope.place)
            rows = self._scoped(view, [scope]).get(scope.source_id)
            if rows is None or (question is None and (vector is None or view.state.model_id is None)):
                return []
            graph = self._graph(view, rows, lambda: self._search(view, question, vector, asked.domain)[0])
            return links(graph, scope.source_id, query.origins, query.edges, asked.top_k)

        return self._in_view(asked.access, asked.timeout_s, read)

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

        def read(view: V) -> list[Chunk]:
            self._check_place(view, source_id, place)
            return self._fetched(view, source_id, chunk_ids, document_ids)

        return self._in_view(access, timeout_s, read)

    def _search(
        self, view: V, question: StoreQuestion | None, vector: Sequence[float] | None, domain: str
    ) -> tuple[Q, str]:
        """Return a search by text, and by the vector if the store has vectors; and the id of an adapter that cannot be
        used.

        Raises:
            StoreVersionMismatch: they are of another model.
        """
        stored = view.state.model_id
        if vector is None or stored is None:
            return self._asking(view, question, None, self.options, self.watch), ""
        self._check_model(stored)
        adapter, missed = self._chosen(view, domain)
        return self._asking(view, question, vector, self.options, self.watch, adapter), missed

    def _best_of(
        self,
        view: V,
        query: SourceQuery,
        source_ids: Sequence[str],
        vector: Sequence[float] | None,
        adapter: DomainAdapter | None,
    ) -> SourceAnswer:
        question = question_of(query.words or query.text, self.options, query.expansions)
        search = self._asking(
            view, question, vector if view.state.model_id else None, self.options, self.watch, adapter
        )
        sources = self._scoped(view, [Scope(source_id=source_id) for source_id in source_ids])
        chunks = chain.from_iterable(search.best(list(sources.values()), query.top_k).values())
        best = sorted(chunks, key=lambda chunk: -chunk.scores[0].value)[: query.top_k]
        return SourceAnswer(chunks=best, statistics=search.statistics)

    def _in_partial_view(self, access: AccessScope | None, timeout_s: float, read: Callable[[V], T]) -> T:
        """Return what `read` gives for a view that may lack a part, which `_failures` names."""
        return self._in_view(access, timeout_s, read)

    def _failures(self, view: V, source_id: str) -> tuple[SourceError, ...]:
        """Return what a view lacks."""
        return ()

    def _check_place(self, view: V, source_id: str, place: SourcePlace | None) -> None:
        self._placement.require(source_id, place, view.state.generation, partial(self._is_placed, view, source_id))
