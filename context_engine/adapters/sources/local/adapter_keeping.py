"""The adapters of a base; its vectors with their chunks, to learn from."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.candidates import LocalQuery
from context_engine.adapters.sources.local.partitions import adapter_rows, readable
from context_engine.adapters.sources.local.reader import Viewer
from context_engine.adapters.sources.local.view import View
from context_engine.adapters.sources.stores.adapter_keeping import AdapterKeeping, ReadAdapters
from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin
from context_engine.adapters.sources.stores.chunk_rows import decode
from context_engine.core.models import AccessScope, Chunk, HeldVectors, SourceAnswer, SourceQuery, VectorAdapter
from context_engine.core.protocols import Embedder
from context_engine.errors import ConfigError, StoreError

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter
    from context_engine.adapters.sources.local.vector_parts import Array


@contextmanager
def writing(root: Path) -> Iterator[sqlite3.Connection]:
    """Yield a connection in its own transaction, which is committed at the end."""
    connection = schema.connect(root, write=True)
    try:
        schema.state_to_write(connection, root)
        with schema.transaction(connection):
            yield connection
    except sqlite3.DatabaseError as error:
        raise schema.unusable(root, error) from error
    finally:
        schema.close_shared(root, connection)


class LocalAdapterKeeping(AdapterKeeping):
    """The methods of a `LocalBase` that make it `Trainable`.

    Attributes:
        path: folder of the base.
    """

    path: Path
    _embedder: Embedder | None
    _viewer: Viewer

    if TYPE_CHECKING:

        def _snapshot(self) -> AbstractContextManager[sqlite3.Connection]: ...

        def best_of(self, *args: Any, **options: Any) -> SourceAnswer: ...

    @contextmanager
    def _adapter_rows(self, access: AccessScope | None) -> Iterator[ReadAdapters]:
        with self._snapshot() as connection:
            holds = {partition.key: partition.holds for partition in readable(connection, access)}
            yield adapter_rows(connection, self.path), holds

    @contextmanager
    def _writing_adapters(self, origin: Origin | None = None) -> Iterator[AdapterRows]:
        with writing(self.path) as connection:
            now = schema.state_to_write(connection, self.path).index_number
            if origin is not None and origin.state != now:
                raise StoreError(
                    f"{self.path} was rebuilt while the adapter was being learnt, and documents may have moved: learn "
                    "it again"
                )
            yield adapter_rows(connection, self.path)

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

        return self.best_of(
            query.text,
            source_ids,
            top_k=query.top_k,
            vector=vector,
            words=query.words,
            expansions=query.expansions,
            access=query.access,
            domain=query.domain,
            adapter=None if adapter is None else DomainAdapter.of(adapter),
        )

    def held_vectors(self, source_ids: Sequence[str], *, access: AccessScope | None = None) -> HeldVectors:
        """Return the vectors of some sources with their chunks, from one snapshot.

        Args:
            access: of the caller; None: everything.

        Raises:
            ConfigError: no embedder is configured.
            StoreVersionMismatch: the base's vectors are of another model.
            StoreError: the base cannot be read.
        """
        if self._embedder is None:
            raise ConfigError("an adapter is learnt from vectors: configure an embedder and ingest with it")

        with self._viewer.view(access) as view:
            return held_vectors(view, source_ids)

    def _adapted(
        self, view: View, question: LocalQuery, domain: str, choice: DomainAdapter | str | None
    ) -> tuple[View, str]:
        """Return a view that compares vectors under the chosen adapter, and the id of an adapter that could not be
        used.
        """
        if view.vectors is None or question.vector is None or choice is None:
            return view, ""
        unusable = ""
        if isinstance(choice, str):
            choice, unusable = self._adapters.chosen(
                adapter_rows(view.connection, self.path), domain, choice, view.partitions
            )
        return view if choice is None else view._replace(vectors=view.vectors.adapted(choice)), unusable


_BATCH: Final = 900


def held_vectors(view: View, source_ids: Sequence[str]) -> HeldVectors:
    """Return the chunks of some sources in a view with their vectors; chunks without vectors are left out.

    Args:
        source_ids: the sources; a source that is not in the base gives nothing.
    """
    import numpy as np  # only here: the rest of the base works without it

    known = dict(view.connection.execute("SELECT source_key, source_id FROM sources"))
    wanted = [key for key, name in known.items() if name in set(source_ids)]
    names: list[str] = []
    chunks: list[Chunk] = []
    lengths: list[Array] = [np.empty(0, np.int64)]
    parts: list[Array] = []
    for matrix in view.vectors.each() if view.vectors is not None else ():
        mine = np.isin(matrix.sources, wanted)
        names += [known[key] for key in matrix.sources[mine].tolist()]
        chunks += _chunks(view.connection, matrix.rids[mine].tolist())
        lengths.append(matrix.lengths[mine])
        parts.append(matrix.in_rows().as_floats(np.repeat(mine, matrix.lengths)))
    dimension = 0 if view.vectors is None else view.vectors.dimension
    return HeldVectors(
        names,
        chunks,
        np.concatenate(lengths),
        np.concatenate(parts) if parts else np.empty((0, dimension), np.float32),
        Origin(view.state.index_number, _holding(view, wanted)),
    )


def _holding(view: View, source_keys: Sequence[int]) -> tuple[int, ...]:
    """Return the partitions of a view that hold documents of some sources."""
    marks = ", ".join("?" * len(source_keys))
    rows = view.connection.execute(
        f"SELECT DISTINCT partition_key FROM documents WHERE source_key IN ({marks})", source_keys
    )
    return tuple(sorted({key for (key,) in rows} & set(view.partitions)))


def _chunks(connection: sqlite3.Connection, rids: Sequence[int]) -> list[Chunk]:
    """Return the chunk of each row, in their order."""
    by_rid: dict[int, Chunk] = {}
    for start in range(0, len(rids), _BATCH):
        some = rids[start : start + _BATCH]
        rows = connection.execute(
            "SELECT rid, indexed_at, chunk_id, content, fields FROM chunks JOIN documents USING (doc_key)"
            f" WHERE rid IN ({', '.join('?' * len(some))})",
            some,
        )
        by_rid |= {rid: decode((chunk_id, content, fields), at) for rid, at, chunk_id, content, fields in rows}
    return [by_rid[rid] for rid in rids]
