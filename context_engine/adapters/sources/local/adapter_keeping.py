"""Store, switch and read the adapters of a base; its vectors with their chunks, to learn from."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from context_engine.adapters.sources.local import adapter_store, adapter_switches, schema
from context_engine.adapters.sources.local.adapter_store import Origin
from context_engine.adapters.sources.local.adapter_switches import AdapterReader, scorer_of
from context_engine.adapters.sources.local.candidates import LocalQuery
from context_engine.adapters.sources.local.partitions import readable
from context_engine.adapters.sources.local.reader import Viewer
from context_engine.adapters.sources.local.view import View
from context_engine.adapters.sources.stores.chunk_rows import canonical, decode
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.core.models import (
    AccessScope,
    Chunk,
    HeldVectors,
    SourceAnswer,
    SourceQuery,
    StoredAdapter,
    VectorAdapter,
)
from context_engine.core.protocols import Embedder
from context_engine.errors import ConfigError

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter
    from context_engine.adapters.sources.local.vector_parts import Array


class AdapterKeeping:
    """The methods of a `LocalBase` that concern adapters.

    Attributes:
        path: folder of the base.
    """

    path: Path
    options: SearchOptions
    _now: Callable[[], datetime]
    _embedder: Embedder | None
    _viewer: Viewer
    _adapters: AdapterReader

    if TYPE_CHECKING:

        def _snapshot(self) -> AbstractContextManager[sqlite3.Connection]: ...

        def best_of(self, *args: Any, **options: Any) -> SourceAnswer: ...

    def adapters(self, domain: str | None = None, *, access: AccessScope | None = None) -> list[StoredAdapter]:
        """Return the stored adapters of a domain, oldest first.

        Args:
            domain: None: of all domains.
            access: of the caller; None: everything. Adapters learnt from chunks that the caller may not read are left
                out.

        Raises:
            StoreError: there is no base, or it cannot be read.
        """
        with self._snapshot() as connection:
            keys = [partition.key for partition in readable(connection, access)]
            return adapter_store.read_all(connection, keys, domain)

    def read_adapter(self, domain: str, adapter_id: str, *, access: AccessScope | None = None) -> DomainAdapter | None:
        """Return a stored adapter; None if it is damaged, for other vectors, or not visible to the caller.

        Raises:
            StoreError: there is no base, or it cannot be read.
        """
        with self._snapshot() as connection:
            keys = [partition.key for partition in readable(connection, access)]
            return self._adapters.chosen(connection, domain, adapter_id, keys).adapter

    def scorer_id(self, domain: str, *, access: AccessScope | None = None) -> str:
        """Return the scorer id of a domain's cosines: the model, or the model and the adapter in use.

        Args:
            access: of the caller; None: everything.

        Returns:
            "" if the base has no vectors.

        Raises:
            StoreError: there is no base, or it cannot be read.
        """
        with self._snapshot() as connection:
            keys = [partition.key for partition in readable(connection, access)]
            return scorer_of(connection, domain, self.options.adapter, keys)

    def keep_adapter(
        self, domain: str, adapter: VectorAdapter, evidence: Mapping[str, Any], origin: Any
    ) -> StoredAdapter:
        """Store an adapter for searches of a domain without putting it in force.

        Args:
            evidence: the measurements made before; stored with the adapter as JSON.
            origin: the origin of the training vectors (`HeldVectors.origin`).

        Raises:
            StoreError: documents may have moved since they were read, or the base cannot be written.
            TypeError, ValueError: the evidence cannot be written as JSON.
        """
        from context_engine.adapters.sources.domain_adapter import DomainAdapter  # only here: it needs numpy

        made_at = self._now().isoformat(timespec="seconds")
        text = canonical(evidence)
        return adapter_store.keep(
            self.path, DomainAdapter.of(adapter), origin, domain=domain, evidence=text, made_at=made_at
        )

    def forget_adapters(self, domain: str, adapter_ids: Collection[str]) -> None:
        """Delete adapters of a domain that were never in force; adapters that ever were in force stay.

        Raises:
            StoreError: the base cannot be written.
        """
        adapter_store.forget(self.path, domain, adapter_ids)

    def use_adapter(self, domain: str, adapter_id: str | None, *, access: AccessScope | None = None) -> None:
        """Put an adapter in force for all callers who may read its training chunks; the next search uses it.

        Args:
            adapter_id: the adapter's id; None: switch off all adapters of the domain.
            access: of the caller: adapters that the caller may not see are not switched; None: everything.

        Raises:
            StoreError: there is no such adapter for the base's vectors, it is damaged, or the base cannot be written.
        """
        chosen = self.switchable_adapters(domain, adapter_id, access=access)
        at = self._now().isoformat(timespec="microseconds")
        adapter_switches.switch(self.path, domain, chosen, on=adapter_id is not None, at=at)

    def switchable_adapters(
        self, domain: str, adapter_id: str | None, *, access: AccessScope | None = None
    ) -> list[StoredAdapter]:
        """Return the adapters that `use_adapter` would switch; same arguments and errors."""
        with self._snapshot() as connection:
            keys = [partition.key for partition in readable(connection, access)]
            return adapter_switches.switchable(connection, self.path, domain, adapter_id, keys)

    def undo_adapter(self, domain: str) -> bool:
        """Undo the last switch of a domain's adapters; a second call restores it.

        Returns:
            Whether there was a switch.

        Raises:
            StoreError: there is no base, or it cannot be written.
        """
        with self._snapshot():
            pass
        return adapter_switches.undo(self.path, domain, at=self._now().isoformat(timespec="microseconds"))

    def vector_model(self) -> str:
        """Return the name of the model that made the vectors, "" if there are none (`StoredVectors`).

        Raises:
            StoreError: there is no base, or it cannot be read.
        """
        with self._snapshot() as connection:
            model = schema.model_of(connection)
        return "" if model is None else model.model_id

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
            choice, unusable = self._adapters.chosen(view.connection, domain, choice, view.partitions)
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
