"""A store in a PostgreSQL server: its sources are searched together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

from context_engine.adapters.sources.postgres import adapters, calibrations, copies, whole_documents
from context_engine.adapters.sources.postgres.attributes import NOTHING, SourceWords, fields_of, storable
from context_engine.adapters.sources.postgres.calibrations import StoredTexts
from context_engine.adapters.sources.postgres.connection import INGEST, Servers, failures
from context_engine.adapters.sources.postgres.probe import probe
from context_engine.adapters.sources.postgres.row_security import name_classes
from context_engine.adapters.sources.postgres.schema import WORDS_VERSION, read_state
from context_engine.adapters.sources.postgres.search import SnapshotView, StoreSearch, scoped, where
from context_engine.adapters.sources.stores.adapter_keeping import AdapterReader
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin
from context_engine.adapters.sources.stores.chunk_rows import decode
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
    AccessClass,
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    ClassCalibration,
    Classification,
    Examination,
    HeldVectors,
    Link,
    LinkQuery,
    NoticeCode,
    ScopeCalibration,
    SourceAnswer,
    SourceQuery,
    WholeDocument,
)
from context_engine.core.protocols import Clock, Embedder
from context_engine.core.query.spelling import words_to_check
from context_engine.errors import StoreVersionMismatch

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

_LISTED_AT_ONCE: Final = 1_000
T = TypeVar("T")
_LEARNT: Final = (
    "SELECT domain, scorer_id, class_key, calibration FROM calibrations WHERE class_key = ANY(%(keys)s::integer[])"
    " UNION ALL SELECT '', '', key, to_regclass('vectors_' || key || '_hnsw')::text"
    " FROM unnest(%(keys)s::integer[]) AS key ORDER BY 1, 2, 3"
)
"""What answers depend on beside the commits: the calibrations of some classes, and which have an index for vectors."""


class PostgresStore(TrainableStore[SnapshotView]):
    """A knowledge base in a schema of a PostgreSQL database. Opened on first use; safe for many threads.

    Args:
        servers: of the store.
        options: options of search.
        embedder: makes the vectors of questions; None: text search only.
        clock: measures the embedder's time, and dates what is kept.
    """

    def __init__(self, servers: Servers, options: SearchOptions, embedder: Embedder | None, clock: Clock) -> None:
        super().__init__(INGEST, options, embedder, clock)
        self._servers, self._now, self._adapters = servers, clock.now, AdapterReader()

    def answers(self, query: SourceQuery, scopes: Sequence[Scope], *, by_vector: bool = True) -> list[SourceAnswer]:
        """Return the best chunks of each of several sources of one domain.

        Notes: query_shortened, no_vectors (an embedder is configured, but the store has no vectors), ann_recall_low
        (the index for vectors missed too many neighbours: it is not used), source_unknown.

        Args:
            by_vector: whether to use the embedder, if one is configured.

        Raises:
            EmbedderError: the model gave no vector for the question, or none in time.
            RepartitionRequired: documents of a source are where former rules put them.
            SourceError, StoreVersionMismatch: the server failed, or tables or vectors are of another version or model.
        """
        question = question_of(query.words or query.text, self.options, query.expansions)
        vectors = self._vectors if by_vector else None
        vector, embedding = (
            (None, None) if vectors is None else vectors.timed(query.text, EMBEDDING_SHARE * query.timeout_s)
        )
        with self._view(query.access, query.timeout_s) as view:
            keys = self._source_keys(view, scopes)
            search, not_usable = self._search(view, question, vector, query.domain)
            notes = self._notes(
                question, view.classes, by_vector=vector is not None, has_vectors=view.state.model_id is not None
            )
            calibration = self._calibration(view, query.domain, search.scorer_id)
            embedding = embedding_under(embedding, search.scorer_id, search.adapter)
            sources = [scoped(view, scope, keys[scope.source_id]) for scope in scopes if scope.source_id in keys]
            chunks = search.best(sources, query.top_k)
            by_key = {source.key: source for source in sources}

            def answer(scope: Scope) -> SourceAnswer:
                key = keys.get(scope.source_id)
                if key is None and query.access is None:
                    return SourceAnswer(notes=(self._note(NoticeCode.SOURCE_UNKNOWN, scope.source_id, view.classes),))
                own = chunks.get(scope.source_id, [])
                words = SourceWords(view.session, view.classes, NOTHING if key is None else where([by_key[key]]))
                return SourceAnswer(
                    chunks=own,
                    notes=(
                        *(self._note(code, scope.source_id, view.classes) for code in notes),
                        *unusable(not_usable, scope.source_id),
                    ),
                    statistics=search.statistics,
                    calibration=calibration,
                    unknown_words=unknown_words(words_to_check(query.text), own, partial(looked_up, words)),
                    filter_fields=None if scope.filters is None else fields_of(view.session, view.classes, key),
                    embedding=embedding,
                )

            return [answer(scope) for scope in scopes]

    def linked(self, query: LinkQuery, scope: Scope, *, by_vector: bool = True) -> list[Link]:
        """Return the chunks of a source that the origins of a query lead to; see `stores.links.links`.

        Args: and errors as in `answers`.
        """
        from context_engine.adapters.sources.postgres.graph import StoreGraph  # few searches follow links

        asked = query.query
        question = question_of(asked.words or asked.text, self.options, asked.expansions)
        vector = None
        if self._vectors is not None and by_vector:
            vector = self._vectors.ask(asked.text, EMBEDDING_SHARE * asked.timeout_s)
        with self._view(asked.access, asked.timeout_s) as view:
            key = self._source_keys(view, [scope]).get(scope.source_id)
            if key is None or (question is None and (vector is None or view.state.model_id is None)):
                return []
            graph = StoreGraph(
                view, scoped(view, scope, key), lambda: self._search(view, question, vector, asked.domain)[0]
            )
            return links(graph, scope.source_id, query.origins, query.edges, asked.top_k)

    def _search(
        self, view: SnapshotView, question: StoreQuestion | None, vector: Sequence[float] | None, domain: str
    ) -> tuple[StoreSearch, str]:
        """Return a search by text, and by the vector if the store has vectors; and the id of an adapter that cannot be
        used.

        Raises:
            StoreVersionMismatch: they are of another model.
        """
        stored = view.state.model_id
        if vector is None or stored is None:
            return StoreSearch(view, question, None, self.options, self.watch), ""
        self._check_model(stored)
        adapter, not_usable = self._chosen(view, domain)
        return StoreSearch(view, question, vector, self.options, self.watch, adapter), not_usable

    def _best_of(
        self,
        view: SnapshotView,
        query: SourceQuery,
        source_ids: Sequence[str],
        vector: Sequence[float] | None,
        adapter: DomainAdapter | None,
    ) -> SourceAnswer:
        """Return the best chunks of some sources in a view."""
        question = question_of(query.words or query.text, self.options, query.expansions)
        scopes = [Scope(source_id=source_id) for source_id in source_ids]
        sources = [scoped(view, Scope(source_id=name), key) for name, key in self._source_keys(view, scopes).items()]
        search = StoreSearch(view, question, vector if view.state.model_id else None, self.options, self.watch, adapter)
        found = chain.from_iterable(search.best(sources, query.top_k).values())
        best = sorted(found, key=lambda chunk: -chunk.scores[0].value)[: query.top_k]
        return SourceAnswer(chunks=best, statistics=search.statistics)

    def chunks(self, source_id: str) -> Iterator[Chunk]:
        """Yield every chunk of a source in one snapshot; none if the source is unknown."""
        with self._servers.reading(READ_S) as session:
            last = 0
            while True:
                rows = session.execute(
                    "SELECT rid, indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key)"
                    " JOIN sources ON sources.source_key = chunks.source_key"
                    " WHERE source_id = %s AND rid > %s ORDER BY rid LIMIT %s",
                    (source_id, last, _LISTED_AT_ONCE),
                ).fetchall()
                for _, indexed_at, *row in rows:
                    yield decode(tuple(row), indexed_at)
                if not rows:
                    return
                last = rows[-1][0]

    def document_hashes(self, source_id: str) -> Mapping[tuple[str, str], str]:
        """Return the hash of each document of a source, in the order of writing (`Copyable`)."""
        with self._servers.reading(READ_S) as session:
            read_state(session)
            return whole_documents.document_hashes(session, source_id)

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        """Yield documents as they are stored (`Copyable`)."""
        with self._servers.reading(READ_S) as session:
            yield from whole_documents.stored_documents(session, source_id, keys)

    def class_calibrations(self, domain: str) -> list[ClassCalibration]:
        """Return the calibrations of a domain for each scorer and access class (`Copyable`)."""
        with self._servers.reading(READ_S) as session:
            return whole_documents.class_calibrations(session, domain)

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
        with self._view(access, timeout_s) as view:
            if place is not None:
                self._check_place(view, source_id, place)
            rows = view.session.execute(
                "SELECT indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key)"
                " JOIN sources ON sources.source_key = chunks.source_key"
                " WHERE source_id = %s AND class_key = ANY(%s) AND (chunk_id = ANY(%s) OR document_id = ANY(%s))"
                " ORDER BY rid",
                (source_id, view.classes, list(filter(storable, chunk_ids)), list(filter(storable, document_ids))),
            )
            return [decode(tuple(row), indexed_at) for indexed_at, *row in rows]

    def version(self, access: AccessScope | None, timeout_s: float) -> str:
        """Return the version of the access classes that a caller may read (`Versioned`).

        It is "" if a standby may answer, with less than the server has that was asked for the version, and in tables
        that do not count the commits of each class yet.

        Raises:
            SourceError, StoreVersionMismatch: the server failed, or the tables are of another version.
        """
        if self._servers.address.read_from == "standby":
            return ""
        with self._servers.reading(timeout_s) as session:
            state = read_state(session)
            classes = state.readable(access)
            keys = [access_class.key for access_class in classes]
            learnt = (
                session.execute(_LEARNT, {"keys": keys}).fetchall(),
                adapters.adapter_rows(session, state).version(keys),
            )
        if any(access_class.generation is None for access_class in classes):
            return ""
        seen = (state._replace(generation=0, moves=0, classes=classes), learnt)
        return hashlib.sha256(repr(seen).encode()).hexdigest()

    def examine(self, source_id: str, access: AccessScope | None, timeout_s: float) -> Examination:
        """Return what the server is and what it holds of a source."""
        with self._servers.reading(timeout_s) as session:
            state = read_state(session)
            watched = self.watch.recall([access_class.key for access_class in state.readable(access)])
            return probe(session, state, source_id, access, watched)

    def copy_to(self, data_dir: Path) -> None:
        """Copy a snapshot of the store for a trial in a data folder (`AccessProvable`)."""
        copies.copy_store(self._servers, data_dir)

    def drop_copy(self, data_dir: Path) -> None:
        """Remove the copy for a data folder (`CopiesElsewhere`)."""
        copies.drop_copy(self._servers, data_dir)

    def rebuild(self) -> None:
        """Build every index anew (`AccessProvable`)."""
        copies.rebuild_indexes(self._servers)

    def close(self) -> None:
        """Close the idle connections; a later call opens others."""
        self._servers.close()

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Replace the calibrations of a plan (`Calibratable`)."""
        with failures(), closing(self._servers.session(write=True)) as session, session.transaction():
            calibrations.keep(session, domain, plan, found)

    @contextmanager
    def _adapter_rows(self, access: AccessScope | None) -> Iterator[tuple[AdapterRows, list[int]]]:
        with self._view(access, READ_S) as view:
            yield self._rows(view), view.classes

    def _writing_adapters(self, origin: Origin | None = None) -> AbstractContextManager[AdapterRows]:
        return adapters.writing_adapters(self._servers, origin)

    def _rows(self, view: SnapshotView) -> AdapterRows:
        return adapters.adapter_rows(view.session, view.state, adapters.name_of(self._servers))

    def _texts(self, view: SnapshotView) -> StoredTexts:
        return StoredTexts(view.session)

    def _kept_calibrations(self, view: SnapshotView, domain: str) -> Mapping[tuple[str, int], KeptCalibration]:
        return calibrations.kept(view.session, domain)

    def _held_vectors(self, view: SnapshotView, source_ids: Sequence[str]) -> HeldVectors:
        return adapters.held_vectors(view, source_ids)

    def _in_view(self, access: AccessScope | None, timeout_s: float, read: Callable[[SnapshotView], T]) -> T:
        with self._view(access, timeout_s) as view:
            return read(view)

    @contextmanager
    def _view(self, access: AccessScope | None, timeout_s: float) -> Iterator[SnapshotView]:
        with self._servers.reading(timeout_s) as session:
            state = read_state(session)
            if state.words_version != WORDS_VERSION:
                raise StoreVersionMismatch(
                    f"its texts were analysed by version {state.words_version}, this program has {WORDS_VERSION}: "
                    f"'{INGEST}' analyses them again"
                )
            yield SnapshotView.of(session, state, access)

    def _check_place(self, view: SnapshotView, source_id: str, place: SourcePlace) -> None:
        generation = view.state.generation
        self._require_placed(source_id, place, generation, lambda: _is_placed(view, source_id, place))

    def _source_keys(self, view: SnapshotView, scopes: Sequence[Scope]) -> dict[str, int]:
        for scope in scopes:
            if scope.place is not None:
                self._check_place(view, scope.source_id, scope.place)
        rows = view.session.execute(
            "SELECT source_id, source_key FROM sources WHERE source_id = ANY(%s)",
            ([scope.source_id for scope in scopes],),
        )
        return dict(rows.fetchall())


def _is_placed(view: SnapshotView, source_id: str, place: SourcePlace) -> bool:
    """Return whether every document of a source, readable or not, is in the class of its place."""
    name_classes(view.session, None)
    rows = view.session.execute(
        "SELECT DISTINCT claimed, rules, classification FROM documents JOIN sources USING (source_key)"
        " JOIN classes USING (class_key) WHERE source_id = %s",
        (source_id,),
    ).fetchall()
    name_classes(view.session, view.classes)
    return all(
        place.holds(Classification(claimed) if claimed else None)
        == AccessClass(rules, Classification(classification) if classification else None)
        for claimed, rules, classification in rows
    )
