"""The embedded knowledge base: SQLite holds the truth, tantivy an index derived from it."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import date, datetime
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Final

from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.adapter_keeping import LocalAdapterKeeping
from context_engine.adapters.sources.local.calibration_keeping import CalibrationKeeping
from context_engine.adapters.sources.local.candidates import LocalQuery
from context_engine.adapters.sources.local.holdings import Holdings
from context_engine.adapters.sources.local.partitions import is_placed
from context_engine.adapters.sources.local.queries import text_query
from context_engine.adapters.sources.local.reader import Pool, Viewer
from context_engine.adapters.sources.local.search import answers, best_of
from context_engine.adapters.sources.stores.adapter_keeping import AUTO, AdapterReader
from context_engine.adapters.sources.stores.chunk_rows import Place
from context_engine.adapters.sources.stores.options import SearchOptions, kind_of
from context_engine.adapters.sources.stores.query_vectors import QueryVectors
from context_engine.adapters.sources.stores.scope import PlacementCheck, Scope
from context_engine.adapters.sources.stores.vector_form import shortened
from context_engine.core.engine.search_plan import SystemClock
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Expansion,
    Filter,
    Link,
    LinkQuery,
    Notice,
    NoticeCode,
    QueryEmbedding,
    ScoreKind,
    SourceAnswer,
)
from context_engine.core.protocols import Embedder
from context_engine.core.query.spelling import words_to_check
from context_engine.errors import MissingExtra

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter
    from context_engine.adapters.sources.local.embedding import Embedded
    from context_engine.adapters.sources.local.loading import VectorCache
    from context_engine.adapters.sources.local.view import View
    from context_engine.adapters.sources.local.writer import BaseWriter


_CLOCK: Final = SystemClock()


class LocalBase(Holdings, LocalAdapterKeeping, CalibrationKeeping):
    """A knowledge base in a folder. Opened on first use; safe for many threads; readable during writes.

    Args:
        path: folder of the base.
        now: the current time, timezone-aware; recorded with each write.
        embedder: makes the vectors of texts and questions; None: text search only.
        options: options of search and of stored vectors.
        place: where the documents of each source belong; None: unknown.

    Raises:
        ConfigError: an embedder without numpy.
    """

    def __init__(
        self,
        path: Path,
        *,
        now: Callable[[], datetime] = _CLOCK.now,
        embedder: Embedder | None = None,
        options: SearchOptions | None = None,
        place: Place | None = None,
    ) -> None:
        self.path = Path(path)
        self.options = options or SearchOptions()
        embedder = None if embedder is None else shortened(embedder, self.options.vector_dimensions)
        self._now, self._embedder, self._place = now, embedder, place
        self._placement = PlacementCheck("'context-engine kb repartition' to move the documents")
        self._vectors = None if embedder is None else QueryVectors(embedder, _CLOCK)
        self._adapters = AdapterReader()
        self._pool = Pool(self.path)
        self._viewer = Viewer(self.path, self._pool, None if embedder is None else _cache(embedder))
        self._by_words = self._viewer if embedder is None else Viewer(self.path, self._pool)

    @classmethod
    def open(
        cls,
        path: Path,
        *,
        create: bool = False,
        now: Callable[[], datetime] = _CLOCK.now,
        embedder: Embedder | None = None,
        options: SearchOptions | None = None,
        place: Place | None = None,
    ) -> LocalBase:
        """Return the base in a folder after reading its state.

        Args:
            path: folder of the base.
            create: make an empty one if missing.
            now, embedder, options, place: see the class.

        Raises:
            StoreError: there is no base, or it cannot be opened.
            StoreVersionMismatch: the tables are of another version.
        """
        base = cls(path, now=now, embedder=embedder, options=options, place=place)
        if create and not base.exists():
            base.writer().close()
        with base._snapshot():
            return base

    @property
    def model_id(self) -> str:
        """The name of the embedder's model; "" without an embedder."""
        return "" if self._embedder is None else self._embedder.model_id

    @property
    def score_kinds(self) -> frozenset[ScoreKind]:
        """The kinds of score its chunks carry."""
        text = frozenset({ScoreKind.BM25})
        return text if self._embedder is None else text | {ScoreKind.COSINE, kind_of(self.options)}

    def exists(self) -> bool:
        """Return whether there is a base in the folder; see `schema.exists`."""
        return schema.exists(self.path)

    def writer(self) -> BaseWriter:
        """Return the only writer, creating the base if needed; it also moves misplaced documents (`repartition`).

        Raises:
            StoreLocked: another writer is at work.
            StoreError: the base cannot be written.
        """
        return self._writer()

    def _writer(self, *, rebuild: bool = False, embedded: Embedded | None = None) -> BaseWriter:
        from context_engine.adapters.sources.local.writer import BaseWriter  # a search needs no writer

        return BaseWriter(
            self.path,
            now=self._now,
            embedder=self._embedder,
            approximate_from=self.options.approximate_from,
            vector_form=self.options.vector_form,
            rebuild=rebuild,
            embedded=embedded,
            place=self._place,
        )

    def rebuild(self, embedded: Embedded | None = None) -> int:
        """Rebuild the index from the rows; readers use the old index until the new one is complete.

        With an embedder, rows without vectors, with damaged vectors or with vectors of another model are embedded too.
        Bytes and shorter vectors are made from stored 32-bit floats without embedding.

        Damaged rows are left out, and the content hashes of their documents are cleared.

        Args:
            embedded: receives the rows embedded so far, and those to embed.

        Returns:
            The number of damaged documents that must be ingested again.

        Raises:
            StoreLocked: a writer is at work.
            StoreError: the base cannot be written.
            EmbedderError: the model failed; the index is built, and the vectors are unchanged.
        """
        return self._renewed(rebuild=True, embedded=embedded).given_up

    def repartition(self) -> int:
        """Move documents whose access rules have changed since they were written to the right partition.

        The affected indexes are rebuilt beside the old ones; nothing is embedded again.

        Returns:
            The number of moved documents.

        Raises:
            StoreLocked: a writer is at work.
            StoreError: the base cannot be written.
        """
        return self._renewed().moved

    def _renewed(self, *, rebuild: bool = False, embedded: Embedded | None = None) -> BaseWriter:
        """Open a writer, which repairs and moves documents on opening; close it and return it."""
        if not self.exists():
            raise schema.missing(self.path)
        writer = self._writer(rebuild=rebuild, embedded=embedded)
        writer.close()
        return writer

    def search(
        self,
        query_text: str,
        *,
        source_id: str,
        top_k: int,
        filters: Filter | None = None,
        as_of: date | None = None,
    ) -> list[Chunk]:
        """Return the chunks of `answer`."""
        scope = Scope(source_id=source_id, filters=filters, as_of=as_of)
        return list(self.answer(query_text, top_k=top_k, scope=scope).chunks)

    def prepare(self, query_text: str, seconds: float) -> None:
        """Load the embedding model if it was not used before, so that later searches need not wait for it.

        Args:
            seconds: the longest wait.
        """
        if self._vectors is not None:
            self._vectors.prepare(query_text, seconds)

    def answer(
        self,
        query_text: str,
        *,
        top_k: int,
        scope: Scope,
        words: str | None = None,
        expansions: Sequence[Expansion] = (),
        by_vector: bool = True,
        embed_within_s: float = 60.0,
    ) -> SourceAnswer:
        """Return the best chunks of one source; see `answers`."""
        return self.answers(
            query_text,
            top_k=top_k,
            scopes=[scope],
            words=words,
            expansions=expansions,
            by_vector=by_vector,
            embed_within_s=embed_within_s,
        )[0]

    def answers(
        self,
        query_text: str,
        *,
        top_k: int,
        scopes: Sequence[Scope],
        words: str | None = None,
        expansions: Sequence[Expansion] = (),
        by_vector: bool = True,
        embed_within_s: float = 60.0,
    ) -> list[SourceAnswer]:
        """Return the best chunks of each of several sources, with notices: by BM25, or with an embedder by BM25 and
        vectors.

        Work that does not depend on the source is done once: the question's vector, its product with all vectors, and
        the view.

        Args:
            query_text: any text; its terms are searched, and no part of it is query syntax.
            top_k: most chunks returned of each source, >= 1.
            scopes: one for each source, at least one; all of one domain and one access.
            words: the text that search terms are taken from, if it differs from `query_text`.
            expansions: other words for the text, searched for with their weights.
            by_vector: whether to use the embedder, if one is configured.
            embed_within_s: seconds that the embedder has.

        Returns:
            For each source its chunks, best first; scores are comparable across all sources of this base. Notes:
            no_search_terms (the query has no terms), query_shortened (more than MOST_TERMS terms), index_lag (the
            latest commit is not searchable yet), no_vectors (an embedder is configured, but the base was written
            without one), source_unknown (the base never had the source).

        Raises:
            EmbedderError: the model gave no vector for the query, or none in time.
            StoreVersionMismatch: the base's vectors are of another model.
            StoreError: the base cannot be read.
            RepartitionRequired: documents of the source are in the partition of former rules (`Scope.place`).
        """
        vector, embedding = (
            self._vectors.timed(query_text, embed_within_s) if self._vectors is not None and by_vector else (None, None)
        )
        text = text_query(words or query_text, self.options, expansions)
        question = LocalQuery(text, vector, self.options, words_to_check(query_text))
        with self._placed(question, scopes) as (view, unusable):
            if len(scopes) > 1 and view.vectors is not None:
                view = view._replace(vectors=view.vectors.for_one_question())
            searched = answers(view, question, top_k, scopes)
            if embedding is not None and view.vectors is not None:
                embedding = embedding._replace(model=view.vectors.scorer_id, adapter=view.vectors.adapter)
        return [_completed(answer, scope, embedding, unusable) for answer, scope in zip(searched, scopes, strict=True)]

    def linked(self, query: LinkQuery, scope: Scope, *, by_vector: bool = True, embed_within_s: float) -> list[Link]:
        """Return the chunks of a source that the origins of a query lead to; see `stores.links.links`.

        Arguments and errors are those of `answers`.
        """
        from context_engine.adapters.sources.local.graph import linked  # few searches follow links

        asked = query.query
        vector = self._vectors.ask(asked.text, embed_within_s) if self._vectors is not None and by_vector else None
        question = LocalQuery(
            text_query(asked.words or asked.text, self.options, asked.expansions), vector, self.options
        )
        with self._placed(question, [scope]) as (view, _):
            return linked(view, question, scope, query)

    @contextmanager
    def _placed(self, question: LocalQuery, scopes: Sequence[Scope]) -> Iterator[tuple[View, str]]:
        """Yield a view for some sources, whose documents are in the right place, with its adapter; and the id of an
        adapter that cannot be used.
        """
        with self._viewer.view(scopes[0].access) as view:
            for scope in scopes:
                placed = partial(is_placed, view.connection, scope.source_id)
                self._placement.require(scope.source_id, scope.place, view.state, placed)
            yield self._adapted(view, question, str(scopes[0].constants.get("domain", "")), self.options.adapter)

    def best_of(
        self,
        query_text: str,
        source_ids: Sequence[str],
        *,
        top_k: int,
        vector: Sequence[float] | None = None,
        words: str | None = None,
        expansions: Sequence[Expansion] = (),
        partition: int | None = None,
        access: AccessScope | None = None,
        domain: str = "",
        adapter: DomainAdapter | str | None = AUTO,
    ) -> SourceAnswer:
        """Return the best chunks of several sources together; the other arguments are those of `answer`.

        Args:
            vector: the question's vector by the base's embedder, if the caller has it; None: the question is embedded.
            partition: the only partition to read; None: all that the caller may read.
            access: of the caller; None: everything.
            adapter: an adapter under test, which need not be stored; None: the model's own vectors; AUTO: as the
                options say.

        Raises:
            EmbedderError, StoreError: as in `answer`.
            StoreVersionMismatch: the adapter is for other vectors.
        """
        if vector is None and self._vectors is not None:
            vector = self._vectors.ask(query_text, 60.0)
        question = LocalQuery(text_query(words or query_text, self.options, expansions), vector, self.options)
        with self._viewer.view(access, only=partition) as view:
            choice = self.options.adapter if adapter == AUTO else adapter
            view, _ = self._adapted(view, question, domain, choice)
            return best_of(view, question, source_ids, top_k)

    def close(self) -> None:
        """Close connections and files; may be called twice. A later call opens them again."""
        self._viewer.close()
        self._by_words.close()
        self._pool.close()

    @contextmanager
    def _snapshot(self) -> Iterator[sqlite3.Connection]:
        """Yield a reader's connection to tables of this version.

        Raises:
            StoreError: there is no base, or it cannot be read or has another version.
        """
        with self._pool.snapshot() as connection:
            schema.read_state(connection, self.path)
            yield connection

    def __enter__(self) -> LocalBase:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _completed(answer: SourceAnswer, scope: Scope, embedding: QueryEmbedding | None, unusable: str) -> SourceAnswer:
    """Return an answer with the vector of its query, and the id of an adapter that could not be used."""
    if unusable:
        note = Notice(NoticeCode.ADAPTER_UNUSABLE, scope.source_id, unusable, {"adapter": unusable})
        answer = replace(answer, notes=(*answer.notes, note))
    without = embedding is None or any(note.code is NoticeCode.NO_VECTORS for note in answer.notices)
    return answer if without else replace(answer, embedding=embedding)


def _cache(embedder: Embedder) -> VectorCache:
    try:
        from context_engine.adapters.sources.local.loading import VectorCache  # only here: it needs numpy
    except ImportError as error:
        raise MissingExtra("an embedder", "vectors") from error
    return VectorCache(embedder.model_id)
