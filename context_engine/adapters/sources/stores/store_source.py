"""A source of a store in a server, as seen by the engine."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from context_engine.adapters.sources.stores.chunk_rows import SourcePlace
from context_engine.adapters.sources.stores.pushdown import standing_of
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.core.models import (
    Chunk,
    Examination,
    ExaminationRequest,
    FetchRequest,
    Link,
    LinkQuery,
    NoticeCode,
    ScoreKind,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
)
from context_engine.core.protocols import Source
from context_engine.errors import EmbedderError, SourceError, SourceNotFound, SourceUnavailable, StoreError

if TYPE_CHECKING:
    from context_engine.adapters.sources.stores.searched_store import SearchedStore

    AnyStore = SearchedStore[Any, Any, Any]

_MARGIN: Final = 0.9
"""Share of the source's time that a statement may take, so that the server stops before the engine leaves."""


class StoreSource:
    """Answers from one source of a store; a `Source` that is `Examinable`, `Listable`, `Fetchable` and a `GraphStore`.

    Args:
        store: shared by all its sources.
        spec: its manifest.
        place: where its documents belong by the configured rules.

    Attributes:
        access_classes: chunks that a caller may not read do not affect its answers (`testing.AccessContract`).
    """

    access_classes: Final = True

    def __init__(self, store: AnyStore, spec: SourceSpec, place: SourcePlace) -> None:
        self.source_id = spec.id
        self._store, self._spec, self._place = store, spec, place
        self.score_kinds: frozenset[ScoreKind] = store.score_kinds

    @property
    def store(self) -> AnyStore:
        """The store: its sources are searched together (`JointlySearchable`)."""
        return self._store

    def search(self, query: SourceQuery) -> SourceAnswer:
        """Return the best chunks; scores are comparable over all sources of one store.

        Raises:
            SourceNotFound: the store is missing, or nothing was ever ingested for this source.
            SourceError: the server failed; `retryable` says whether to ask again.
            RepartitionRequired: its access rules have changed since its documents were written.
        """
        (answer,) = self.search_together([self], query)
        if isinstance(answer, SourceError):
            raise answer
        return answer

    def search_together(self, sources: Sequence[Source], query: SourceQuery) -> list[SourceAnswer | SourceError]:
        """Return the answer or error of each of some sources of this store, as in `search`."""
        own = [source for source in sources if isinstance(source, StoreSource)]
        with self._named():
            answers = self._answers(within(query), [source._scope(query) for source in own])
        return [source._known(answer) for source, answer in zip(own, answers, strict=True)]

    def _answers(self, query: SourceQuery, scopes: Sequence[Scope]) -> list[SourceAnswer]:
        try:
            return self._store.answers(query, scopes)
        except EmbedderError as error:
            problem = f"no search by vectors: {error}"
            return [
                replace(answer, failures=(*answer.failures, SourceUnavailable(problem, source_id=scope.source_id)))
                for scope, answer in zip(scopes, self._store.answers(query, scopes, by_vector=False), strict=True)
            ]

    def prepare(self, query_text: str, seconds: float) -> None:
        """Load the embedding model before the source's own time begins (`Preparable`)."""
        self._store.prepare(query_text, seconds)

    def examine(self, request: ExaminationRequest) -> Examination:
        """Return what the server is and what it holds, and run the sample query, if there is one.

        Raises:
            SourceError: as in `search`.
        """
        with self._named():
            report = self._store.examine(self.source_id, request.access, request.timeout_s)
        if request.sample is None:
            return report
        return replace(report, records=len(self.search(request.sample).chunks))

    def list_chunks(self) -> Iterator[Chunk]:
        """Yield every chunk in one snapshot; none if the store does not have the source.

        Raises:
            SourceError: the server failed.
        """
        return self._store.chunks(self.source_id)

    def fetch(self, request: FetchRequest) -> Sequence[Chunk]:
        """Return the requested chunks in one snapshot.

        Raises:
            SourceError, RepartitionRequired: as in `search`.
        """
        with self._named():
            return self._store.fetch(
                self.source_id,
                chunk_ids=request.chunk_ids,
                document_ids=request.document_ids,
                access=request.access,
                place=self._place,
                timeout_s=_MARGIN * request.timeout_s,
            )

    def linked(self, query: LinkQuery) -> Sequence[Link]:
        """Return what chunks lead to (`GraphStore`), scored by words alone if the embedder fails.

        Raises:
            SourceError, RepartitionRequired: as in `search`.
        """
        scope, asked = self._scope(query.query), replace(query, query=within(query.query))
        with self._named():
            try:
                return self._store.linked(asked, scope)
            except EmbedderError:
                return self._store.linked(asked, scope, by_vector=False)

    def close(self) -> None:
        """Close the store's idle connections; a later search, also of its other sources, opens them again."""
        self._store.close()

    @contextmanager
    def _named(self) -> Iterator[None]:
        """Name this source in the errors of its store."""
        try:
            yield
        except SourceError as error:
            error.source_id = error.source_id or self.source_id
            raise
        except StoreError as error:
            raise SourceUnavailable(str(error), source_id=self.source_id) from error

    def _known(self, answer: SourceAnswer) -> SourceAnswer | SourceError:
        if all(notice.code is not NoticeCode.SOURCE_UNKNOWN for notice in answer.notices):
            return answer
        return SourceNotFound(f"nothing was ingested for it: run '{self._store.ingest}'", source_id=self.source_id)

    def _scope(self, query: SourceQuery) -> Scope:
        return Scope(
            source_id=self.source_id,
            filters=query.filters,
            as_of=query.as_of,
            constants={"domain": query.domain},
            standing=partial(standing_of, self._spec),
            place=self._place,
        )


def within(query: SourceQuery) -> SourceQuery:
    """Return a query with less time, so that the server stops before the engine leaves."""
    return replace(query, timeout_s=_MARGIN * query.timeout_s)
