"""A store in a PostgreSQL server: its sources are searched together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from typing import Final, TypeVar

from context_engine.adapters.sources.postgres import adapters, calibrations, copies, whole_documents
from context_engine.adapters.sources.postgres.attributes import NOTHING, SourceWords, fields_of, storable
from context_engine.adapters.sources.postgres.calibrations import StoredTexts
from context_engine.adapters.sources.postgres.connection import INGEST, Servers, store_name
from context_engine.adapters.sources.postgres.copies import probe
from context_engine.adapters.sources.postgres.graph import StoreGraph
from context_engine.adapters.sources.postgres.row_security import name_classes
from context_engine.adapters.sources.postgres.schema import WORDS_VERSION, read_state
from context_engine.adapters.sources.postgres.search import ScopedRows, SnapshotView, StoreSearch, scoped, where
from context_engine.adapters.sources.stores.adapter_keeping import ReadAdapters
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin
from context_engine.adapters.sources.stores.chunk_rows import SourcePlace, decode
from context_engine.adapters.sources.stores.copies import CopiedStore
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.searched_store import SearchedStore
from context_engine.adapters.sources.stores.trainable_store import READ_S, KeptCalibration
from context_engine.core.models import (
    AccessClass,
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    Chunk,
    ClassCalibration,
    Examination,
    HeldVectors,
    ScopeCalibration,
    WholeDocument,
)
from context_engine.core.protocols import Clock, Embedder

_LISTED_AT_ONCE: Final = 1_000
T = TypeVar("T")
_LEARNT: Final = (
    "SELECT domain, scorer_id, class_key, calibration FROM calibrations WHERE class_key = ANY(%(keys)s::integer[])"
    " UNION ALL SELECT '', '', key, to_regclass('vectors_' || key || '_hnsw')::text"
    " FROM unnest(%(keys)s::integer[]) AS key ORDER BY 1, 2, 3"
)
"""What answers depend on beside the commits: the calibrations of some classes, and which have an index for vectors."""


class PostgresStore(SearchedStore[SnapshotView, ScopedRows, StoreSearch], CopiedStore):
    """A knowledge base in a schema of a PostgreSQL database. Opened on first use; safe for many threads.

    Args:
        servers: of the store.
        options: options of search.
        embedder: makes the vectors of questions; None: text search only.
        clock: measures the embedder's time, and dates what is kept.
    """

    _asking, _graph = StoreSearch, StoreGraph

    def __init__(self, servers: Servers, options: SearchOptions, embedder: Embedder | None, clock: Clock) -> None:
        super().__init__(INGEST, options, embedder, clock)
        self._servers, self._own = servers, store_name(servers.address)

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
            return calibrations.class_calibrations(session, domain)

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
        seen = (state._replace(generation=0, moves=0, guarded=False, classes=classes), learnt)
        return hashlib.sha256(repr(seen).encode()).hexdigest()

    def examine(self, source_id: str, access: AccessScope | None, timeout_s: float) -> Examination:
        """Return what the server is and what it holds of a source."""
        with self._servers.reading(timeout_s) as session:
            state = read_state(session)
            watched = self.watch.recall([access_class.key for access_class in state.readable(access)])
            return probe(session, state, source_id, access, watched)

    def _copy_as(self, name: str) -> None:
        copies.copy_store(self._servers, name)

    def _remove_copy(self, name: str) -> None:
        copies.drop_copy(self._servers, name)

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
        with self._servers.failures(), closing(self._servers.session(write=True)) as session, session.transaction():
            calibrations.keep(session, domain, plan, found)

    @contextmanager
    def _adapter_rows(self, access: AccessScope | None) -> Iterator[ReadAdapters]:
        with self._view(access, READ_S) as view:
            yield self._rows(view), {each.key: each.holds for each in view.state.readable(access)}

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
            self._check_analysis(state.words_version, WORDS_VERSION)
            yield SnapshotView.of(session, state, access)

    def _scoped(self, view: SnapshotView, scopes: Sequence[Scope]) -> dict[str, ScopedRows]:
        by_id = {scope.source_id: scope for scope in scopes}
        rows = view.session.execute(
            "SELECT source_id, source_key FROM sources WHERE source_id = ANY(%s)", (list(by_id),)
        )
        keys = dict(rows.fetchall())
        return {name: scoped(view, scope, keys[name]) for name, scope in by_id.items() if name in keys}

    def _vocabulary(self, view: SnapshotView, rows: ScopedRows | None, asked: Sequence[str]) -> SourceWords:
        return SourceWords(view.session, view.classes, NOTHING if rows is None else where([rows]))

    def _fields(self, view: SnapshotView, rows: ScopedRows) -> tuple[str, ...]:
        return fields_of(view.session, view.classes, rows.key)

    def _fetched(
        self, view: SnapshotView, source_id: str, chunk_ids: Sequence[str], document_ids: Sequence[str]
    ) -> list[Chunk]:
        rows = view.session.execute(
            "SELECT indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key)"
            " JOIN sources ON sources.source_key = chunks.source_key"
            " WHERE source_id = %s AND class_key = ANY(%s) AND (chunk_id = ANY(%s) OR document_id = ANY(%s))"
            " ORDER BY rid",
            (source_id, view.classes, list(filter(storable, chunk_ids)), list(filter(storable, document_ids))),
        )
        return [decode(tuple(row), indexed_at) for indexed_at, *row in rows]

    def _is_placed(self, view: SnapshotView, source_id: str, place: SourcePlace) -> bool:
        name_classes(view.session, None)
        rows = view.session.execute(
            "SELECT DISTINCT claimed, rules, classification FROM documents JOIN sources USING (source_key)"
            " JOIN classes USING (class_key) WHERE source_id = %s",
            (source_id,),
        ).fetchall()
        name_classes(view.session, view.classes)
        return all(
            place.holds(claimed) == AccessClass.of(rules, classification) for claimed, rules, classification in rows
        )
