"""The adapters of a store, and its vectors with their chunks, to learn from."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from psycopg import sql

from context_engine.adapters.sources.postgres.connection import INGEST, Servers, Session, failures, one_row
from context_engine.adapters.sources.postgres.schema import StoreState, read_state
from context_engine.adapters.sources.postgres.search import SnapshotView
from context_engine.adapters.sources.postgres.vectors import received, sent
from context_engine.adapters.sources.stores.adapter_keeping import AdapterKeeping, AdapterReader, ChosenAdapter
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin, VectorModel
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.core.models import AccessScope, HeldVectors, SourceAnswer, SourceQuery, VectorAdapter, scorer_name
from context_engine.core.protocols import Embedder
from context_engine.errors import ConfigError, StoreError, StoreVersionMismatch

_READ_S: Final = 600.0
_AT_ONCE: Final = 1_000
_HELD: Final = """
SELECT source_id, indexed_at, chunk_id, content, fields, part, {sent}
FROM vectors JOIN chunks USING (rid) JOIN documents ON documents.doc_key = chunks.doc_key
JOIN sources ON sources.source_key = chunks.source_key
WHERE vectors.class_key = ANY(%s) AND source_id = ANY(%s)
ORDER BY source_id COLLATE "C", document_id COLLATE "C", version COLLATE "C", rid, part
"""


def adapter_rows(session: Session, state: StoreState | None = None, store: str = "") -> AdapterRows:
    """Return the adapters of a store in a transaction.

    Args:
        state: of the store; None: its vectors do not matter.
        store: its name in errors.
    """

    def execute(query: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        if state is not None and not state.keeps_adapters:
            return []
        cursor = session.execute(re.sub(r":(\w+)", r"%(\1)s", query).encode(), values)
        return cursor.fetchall() if cursor.description else []

    model = None if state is None or state.model_id is None else VectorModel(state.model_id, state.dimension)
    return AdapterRows(execute, model, store)


class PostgresAdapterKeeping(AdapterKeeping):
    """The methods of a `PostgresStore` that make it `Trainable`."""

    _servers: Servers
    _embedder: Embedder | None
    _now: Callable[[], datetime]
    _adapters: AdapterReader

    if TYPE_CHECKING:

        def _view(self, access: AccessScope | None, timeout_s: float) -> AbstractContextManager[SnapshotView]: ...

        def _asked(self, query: SourceQuery) -> Sequence[float] | None: ...

        def _best_of(self, view: SnapshotView, query: SourceQuery, *args: Any) -> SourceAnswer: ...

    @contextmanager
    def _adapter_rows(self, access: AccessScope | None) -> Iterator[tuple[AdapterRows, list[int]]]:
        with self._view(access, _READ_S) as view:
            yield self._rows(view), view.classes

    @contextmanager
    def _writing_adapters(self, origin: Origin | None = None) -> Iterator[AdapterRows]:
        with failures(), closing(self._servers.session(write=True)) as session, session.transaction():
            state = read_state(session)
            if not state.keeps_adapters:
                raise StoreVersionMismatch(f"its tables are of an older version: '{INGEST}' brings them up to date")
            session.execute("LOCK adapters, adapter_switches IN SHARE ROW EXCLUSIVE MODE")
            if origin is not None and origin.state != one_row(session, "SELECT moves FROM state FOR SHARE")[0]:
                raise StoreError("documents have changed their access class meanwhile: learn the adapter again")
            yield adapter_rows(session, state, self._name)

    def _rows(self, view: SnapshotView) -> AdapterRows:
        return adapter_rows(view.session, view.state, self._name)

    @property
    def _name(self) -> str:
        return f"schema {self._servers.address.schema!r}"

    def _chosen(self, view: SnapshotView, domain: str, choice: str | None = None) -> ChosenAdapter:
        """Return the adapter for a search; None: as the options say."""
        return self._adapters.chosen(self._rows(view), domain, choice or self.options.adapter, view.classes)

    def _scorers(self, view: SnapshotView, domain: str, adapter_id: str | None) -> list[str]:
        """Return the scorers to calibrate: text only, vectors, and vectors under each adapter that is or will be in
        force.
        """
        model = view.state.model_id
        if self._embedder is None or model is None:
            return [""]
        usable = (kept for kept in self._rows(view).stored(view.classes, domain) if not kept.problem)
        wanted = (kept.adapter_id for kept in usable if kept.in_force or kept.adapter_id == adapter_id)
        return ["", model, *(scorer_name(model, name) for name in wanted)]

    def held_vectors(self, source_ids: Sequence[str], *, access: AccessScope | None = None) -> HeldVectors:
        """Return the vectors of some sources with their chunks, from one snapshot.

        They have the precision of the stored type, and unit length.

        Args:
            access: of the caller; None: everything.

        Raises:
            ConfigError: no embedder is configured.
            SourceError: the server failed.
        """
        if self._embedder is None:
            raise ConfigError("an adapter is learnt from vectors: configure an embedder and ingest with it")

        with self._view(access, _READ_S) as view:
            return _held_vectors(view, source_ids)

    def search_adapted(
        self,
        source_ids: Sequence[str],
        query: SourceQuery,
        *,
        vector: Sequence[float] | None = None,
        adapter: VectorAdapter | None = None,
    ) -> SourceAnswer:
        """Return the best chunks of some sources under an adapter, kept or not; see `Trainable`."""
        from context_engine.adapters.sources.domain_adapter import DomainAdapter  # only here: it needs numpy

        vector = self._asked(query) if vector is None else vector
        mapped = None if adapter is None else DomainAdapter.of(adapter)
        with self._view(query.access, query.timeout_s) as view:
            return self._best_of(view, query, source_ids, vector, mapped)


def _held_vectors(view: SnapshotView, source_ids: Sequence[str]) -> HeldVectors:
    import numpy as np  # only here: the rest of the store works without it

    origin = Origin(view.state.moves, _holding(view, source_ids))
    dimension = view.state.dimension
    held = HeldVectors([], [], np.empty(0, np.int64), np.empty((0, dimension), np.float32), origin)
    if view.state.model_id is None:
        return held
    (kind,) = one_row(view.session, "SELECT vector_type FROM state")
    lengths: list[int] = []
    parts = [held.parts]
    with view.session.cursor("held_vectors", binary=True) as cursor:
        cursor.execute(sql.SQL(_HELD).format(sent=sent(kind)), (view.classes, list(source_ids)))
        while rows := cursor.fetchmany(_AT_ONCE):
            parts.append(received([row[-1] for row in rows], kind, dimension))
            for source_id, indexed_at, chunk_id, content, fields, part, _ in rows:
                if part == 0:
                    held.source_ids.append(source_id)
                    held.chunks.append(decode((chunk_id, content, fields), indexed_at))
                    lengths.append(0)
                lengths[-1] += 1
    vectors = np.concatenate(parts)
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    return held._replace(lengths=np.array(lengths, np.int64), parts=vectors / np.where(norms > 0.0, norms, 1.0))


def _holding(view: SnapshotView, source_ids: Sequence[str]) -> tuple[int, ...]:
    """Return the access classes of a view that hold documents of some sources."""
    rows = view.session.execute(
        "SELECT DISTINCT class_key FROM documents JOIN sources USING (source_key)"
        " WHERE source_id = ANY(%s) AND class_key = ANY(%s) ORDER BY class_key",
        (list(source_ids), view.classes),
    )
    return tuple(key for (key,) in rows)
