"""The adapters of a store, and its vectors with their chunks, to learn from."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from typing import Any, Final

from psycopg import sql

from context_engine.adapters.sources.postgres.connection import INGEST, Servers, Session, one_row
from context_engine.adapters.sources.postgres.schema import StoreState, read_state
from context_engine.adapters.sources.postgres.search import SnapshotView
from context_engine.adapters.sources.postgres.vectors import received, sent
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin, VectorModel
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.core.models import HeldVectors
from context_engine.errors import StoreError, StoreVersionMismatch

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


@contextmanager
def writing_adapters(servers: Servers, origin: Origin | None = None) -> Iterator[AdapterRows]:
    """Yield the adapters in a transaction; see `AdapterKeeping`."""
    with servers.failures(), closing(servers.session(write=True)) as session, session.transaction():
        state = read_state(session)
        if not state.keeps_adapters:
            raise StoreVersionMismatch(f"its tables are of an older version: '{INGEST}' brings them up to date")
        session.execute("LOCK adapters, adapter_switches IN SHARE ROW EXCLUSIVE MODE")
        if origin is not None and origin.state != one_row(session, "SELECT moves FROM state FOR SHARE")[0]:
            raise StoreError("documents have changed their access class meanwhile: learn the adapter again")
        yield adapter_rows(session, state, name_of(servers))


def name_of(servers: Servers) -> str:
    """Return the name of a store in errors."""
    return f"schema {servers.address.schema!r}"


def held_vectors(view: SnapshotView, source_ids: Sequence[str]) -> HeldVectors:
    """Return the vectors of some sources with their chunks; see `TrainableStore`."""
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
