"""A store in a PostgreSQL server: its sources are searched together."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from itertools import groupby
from operator import itemgetter
from typing import Any, Final, TypeVar

from context_engine.adapters.sources.postgres import adapters, calibrations, copies
from context_engine.adapters.sources.postgres.attributes import NOTHING, SourceWords, fields_of, storable
from context_engine.adapters.sources.postgres.calibrations import StoredTexts
from context_engine.adapters.sources.postgres.connection import INGEST, Servers, Session, one_row, store_name
from context_engine.adapters.sources.postgres.copies import examined
from context_engine.adapters.sources.postgres.graph import StoreGraph
from context_engine.adapters.sources.postgres.row_security import name_classes
from context_engine.adapters.sources.postgres.schema import WORDS_VERSION, read_state
from context_engine.adapters.sources.postgres.search import ScopedRows, SnapshotView, StoreSearch, scoped, where
from context_engine.adapters.sources.postgres.vectors import from_server
from context_engine.adapters.sources.stores.adapter_keeping import ReadAdapters
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin
from context_engine.adapters.sources.stores.calibrating import KeptCalibration
from context_engine.adapters.sources.stores.chunk_rows import ChunkRow, SourcePlace, as_written, decode
from context_engine.adapters.sources.stores.copies import CopiedStore
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.scope import Scope
from context_engine.adapters.sources.stores.searched_store import SearchedStore
from context_engine.adapters.sources.stores.trainable_store import READ_S
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

_COPIED_AT_ONCE: Final = 500
"""Rows that are read at once."""
_HASHES: Final = (
    "SELECT document_id, version, content_hash FROM documents JOIN sources USING (source_key) WHERE source_id = %s"
    " ORDER BY doc_key"
)
_DOCUMENTS: Final = """
SELECT place, content_hash, indexed_at, rules, classification, chunk_id, content, fields, digest, {vectors}
FROM unnest(%s::text[], %s::text[]) WITH ORDINALITY AS wanted (document_id, version, place)
JOIN documents USING (document_id, version) JOIN sources USING (source_key) JOIN classes USING (class_key)
LEFT JOIN chunks ON chunks.doc_key = documents.doc_key WHERE source_id = %s ORDER BY place, chunks.rid
"""
_VECTORS: Final = (
    "ARRAY(SELECT {kind}_send(embedding) FROM vectors WHERE vectors.class_key = documents.class_key"
    " AND vectors.rid = chunks.rid ORDER BY part)"
)


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
            return document_hashes(session, source_id)

    def stored_documents(self, source_id: str, keys: Sequence[tuple[str, str]]) -> Iterator[WholeDocument | None]:
        """Yield documents as they are stored (`Copyable`)."""
        with self._servers.reading(READ_S) as session:
            yield from stored_documents(session, source_id, keys)

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
            keys = [access_class.key for access_class in state.readable(access)]
            return self._examination(source_id, keys, **examined(session, state, source_id, access))

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


def document_hashes(session: Session, source_id: str) -> Mapping[tuple[str, str], str]:
    """Return {(document_id, version): content_hash} of a source, in the order of writing."""
    rows = session.execute(_HASHES, (source_id,))
    return {(document_id, version): content_hash for document_id, version, content_hash in rows}


def hashes_of(servers: Servers, source_id: str) -> Mapping[tuple[str, str], str]:
    """Return `document_hashes`; nothing if there are no tables yet."""
    with servers.reading(READ_S) as session:
        (made,) = one_row(session, "SELECT to_regclass('documents') IS NOT NULL")
        return document_hashes(session, source_id) if made else {}


def stored_documents(
    session: Session, source_id: str, keys: Sequence[tuple[str, str]]
) -> Iterator[WholeDocument | None]:
    """Yield each document, or None if the source has no such document; see `Copyable`.

    Args:
        session: in a transaction.
    """
    model = read_state(session).model_id or ""
    (kind,) = one_row(session, "SELECT vector_type FROM state")
    vectors = _VECTORS.format(kind=kind) if model else "'{}'::bytea[]"
    with session.cursor(name="copied") as cursor:
        cursor.itersize = _COPIED_AT_ONCE
        names = [list(part) for part in zip(*keys, strict=True)] or [[], []]
        cursor.execute(_DOCUMENTS.format(vectors=vectors).encode(), (*names, source_id), binary=True)
        groups = groupby(cursor, key=itemgetter(0))
        place, rows = next(groups, (0, iter(())))
        for number, key in enumerate(keys, 1):
            if place == number:
                yield _document(key, list(rows), model, kind)
                place, rows = next(groups, (0, iter(())))
            else:
                yield None


def _document(key: tuple[str, str], rows: Sequence[Any], model: str, kind: str) -> WholeDocument:
    _, content_hash, indexed_at, rules, classification, *_ = rows[0]
    access = AccessClass.of(rules, classification)
    chunk_rows = [row[5:] for row in rows if row[5] is not None]
    chunks = [as_written(ChunkRow(*row[:4])) for row in chunk_rows]
    vectors = [[from_server(part, kind) for part in row[4]] for row in chunk_rows]
    return WholeDocument(*key, content_hash, indexed_at, access, chunks, vectors, model if any(vectors) else "")
