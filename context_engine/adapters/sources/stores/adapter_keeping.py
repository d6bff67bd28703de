"""The methods of a store that keeps adapters, and the adapter that a search uses."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from cachetools import LRUCache

from context_engine.adapters.sources.stores.adapter_rows import AdapterRows, Origin, VectorModel
from context_engine.adapters.sources.stores.chunk_rows import canonical
from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import (
    AccessClass,
    AccessScope,
    CopiedAdapter,
    StoredAdapter,
    VectorAdapter,
    scorer_name,
)

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

AUTO: Final = "auto"
"""The adapter in force."""
OFF: Final = "off"
"""No adapter: the vectors of the model are compared as they are."""
_MOST_BYTES: Final = 1 << 26
"""Memory for maps: 56 adapters of 384 numbers, or 8 of 1,024. One adapter is always kept."""


class ChosenAdapter(NamedTuple):
    """The adapter that a search uses.

    Attributes:
        adapter: None: the model's own vectors.
        unusable: the id of the requested adapter if it cannot be used: it is damaged, for other vectors than the
            store's, or not visible to the caller; else "".
    """

    adapter: DomainAdapter | None = None
    unusable: str = ""


class AdapterReader:
    """Reads adapters of one store; keeps the maps of the last few in memory. Safe for several threads.

    An id identifies the content, so cached maps stay valid after later switches.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: LRUCache[tuple[str, str, str], DomainAdapter] = LRUCache(_MOST_BYTES, getsizeof=_size)

    def chosen(self, rows: AdapterRows, domain: str, choice: str, keys: Collection[int]) -> ChosenAdapter:
        """Return the adapter for a search.

        Args:
            rows: in a reader's transaction.
            domain: of the search.
            choice: AUTO, OFF, or the id of an adapter.
            keys: the access classes that the caller may read.
        """
        model = rows.model
        if model is None or choice == OFF:
            return ChosenAdapter()
        name, missed = _id_of(rows, domain, choice, keys)
        if name is None:
            return ChosenAdapter(unusable=missed)
        adapter = self._read(rows, domain, name, model)
        return ChosenAdapter(unusable=name) if adapter is None else ChosenAdapter(adapter)

    def _read(self, rows: AdapterRows, domain: str, adapter_id: str, model: VectorModel) -> DomainAdapter | None:
        """Return a stored adapter of the store's model, None if it is damaged."""
        key = (domain, adapter_id, model.model_id)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None:
            return kept
        maps = rows.maps(domain, adapter_id)
        if maps is None:
            return None
        from context_engine.adapters.sources.domain_adapter import DomainAdapter  # only here: it needs numpy

        try:
            adapter = DomainAdapter.from_bytes(model.model_id, maps, model.dimension)
        except ValueError:
            return None
        with self._lock:
            self._kept[key] = adapter
        return adapter


def _size(adapter: DomainAdapter) -> int:
    """Return the bytes of both maps; an adapter larger than the cache fills it alone."""
    return min(2 * adapter.query.nbytes, _MOST_BYTES)


def scorer_of(rows: AdapterRows, domain: str, choice: str, keys: Collection[int]) -> str:
    """Return the scorer id of a search's cosines: the model, the model with an adapter, or "" without vectors.

    Needs no numpy. The arguments are those of `AdapterReader.chosen`.
    """
    if rows.model is None:
        return ""
    name, _ = (None, "") if choice == OFF else _id_of(rows, domain, choice, keys)
    sound = name is not None and rows.maps(domain, name) is not None
    return scorer_name(rows.model.model_id, name if sound else None)


def _id_of(rows: AdapterRows, domain: str, choice: str, keys: Collection[int]) -> tuple[str | None, str]:
    """Return the id of an adapter that can be used, or None and the id of one that cannot."""
    return rows.in_force(domain, keys) if choice == AUTO else (rows.named(domain, choice, keys), choice)


ReadAdapters = tuple[AdapterRows, Mapping[int, AccessClass]]
"""The adapters of a store, and access classes by their keys."""


class AdapterKeeping:
    """The methods of a store that make it `LearntAdapters`, and keep what was learnt.

    Attributes:
        options: of the store's searches; they may name an adapter.
    """

    options: SearchOptions
    _now: Callable[[], datetime]
    _adapters: AdapterReader

    if TYPE_CHECKING:

        def _adapter_rows(self, access: AccessScope | None) -> AbstractContextManager[ReadAdapters]:
            """Yield the adapters in a snapshot, and the access classes that a caller may read, by their keys."""

        def _writing_adapters(self, origin: Origin | None = None) -> AbstractContextManager[AdapterRows]:
            """Yield the adapters in a transaction, which is committed at the end.

            Raises:
                StoreError: documents may have moved since an origin, or the store cannot be written.
            """

    def adapters(self, domain: str | None = None, *, access: AccessScope | None = None) -> list[StoredAdapter]:
        """Return the stored adapters of a domain, oldest first.

        Args:
            domain: None: of all domains.
            access: of the caller; None: everything. Adapters learnt from chunks that the caller may not read are left
                out.

        Raises:
            StoreError: there is no store, or it cannot be read.
        """
        with self._adapter_rows(access) as (rows, keys):
            return rows.stored(keys, domain)

    def read_adapter(self, domain: str, adapter_id: str, *, access: AccessScope | None = None) -> DomainAdapter | None:
        """Return a stored adapter; None if it is damaged, for other vectors, or not visible to the caller.

        Raises:
            StoreError: there is no store, or it cannot be read.
        """
        with self._adapter_rows(access) as (rows, keys):
            return self._adapters.chosen(rows, domain, adapter_id, keys).adapter

    def scorer_id(self, domain: str, *, access: AccessScope | None = None) -> str:
        """Return the scorer id of a domain's cosines: the model, or the model and the adapter in use.

        Args:
            access: of the caller; None: everything.

        Returns:
            "" if the store has no vectors.

        Raises:
            StoreError: there is no store, or it cannot be read.
        """
        with self._adapter_rows(access) as (rows, keys):
            return scorer_of(rows, domain, self.options.adapter, keys)

    def keep_adapter(
        self, domain: str, adapter: VectorAdapter, evidence: Mapping[str, Any], origin: Any
    ) -> StoredAdapter:
        """Store an adapter for searches of a domain without putting it in force.

        The returned row is read in the same transaction, because another process may delete the adapter at once.

        Args:
            evidence: the measurements made before; stored with the adapter as JSON.
            origin: the origin of the training vectors (`HeldVectors.origin`).

        Raises:
            StoreError: documents may have moved since they were read, or the store cannot be written.
            TypeError, ValueError: the evidence cannot be written as JSON.
        """
        from context_engine.adapters.sources.domain_adapter import DomainAdapter  # only here: it needs numpy

        made_at, text = self._now().isoformat(timespec="seconds"), canonical(evidence)
        with self._writing_adapters(origin) as rows:
            return rows.keep(domain, DomainAdapter.of(adapter), origin.classes, text, made_at)

    def forget_adapters(self, domain: str, adapter_ids: Collection[str]) -> None:
        """Delete adapters of a domain that were never in force; adapters that ever were in force stay.

        Raises:
            StoreError: the store cannot be written.
        """
        with self._writing_adapters() as rows:
            rows.forget(domain, adapter_ids)

    def use_adapter(self, domain: str, adapter_id: str | None, *, access: AccessScope | None = None) -> None:
        """Put an adapter in force for all callers who may read its training chunks; the next search uses it.

        Args:
            adapter_id: the adapter's id; None: switch off all adapters of the domain.
            access: of the caller: adapters that the caller may not see are not switched; None: everything.

        Raises:
            StoreError: there is no such adapter for the store's vectors, it is damaged, or the store cannot be written.
        """
        chosen = self.switchable_adapters(domain, adapter_id, access=access)
        with self._writing_adapters() as rows:
            rows.switch(domain, chosen, on=adapter_id is not None, at=self._moment())

    def switchable_adapters(
        self, domain: str, adapter_id: str | None, *, access: AccessScope | None = None
    ) -> list[StoredAdapter]:
        """Return the adapters that `use_adapter` would switch; same arguments and errors."""
        with self._adapter_rows(access) as (rows, keys):
            return rows.switchable(domain, adapter_id, keys)

    def undo_adapter(self, domain: str) -> bool:
        """Undo the last switch of a domain's adapters; a second call restores it.

        Returns:
            Whether there was a switch.

        Raises:
            StoreError: there is no store, or it cannot be written.
        """
        with self._adapter_rows(None):
            pass
        with self._writing_adapters() as rows:
            return rows.undo(domain, at=self._moment())

    def copied_adapters(self, domain: str) -> list[CopiedAdapter]:
        """Return the usable adapters of a domain with their maps (`CopyableAdapters`)."""
        with self._adapter_rows(None) as (rows, holds):
            return rows.copied(domain, holds)

    def keep_copied(self, domain: str, adapters: Sequence[CopiedAdapter]) -> list[str]:
        """Keep adapters of another store; return the ids of those that can be used here (`CopyableAdapters`)."""
        with self._adapter_rows(None) as (_, holds):
            pass
        with self._writing_adapters() as rows:
            return rows.keep_copied(domain, adapters, holds, at=self._moment())

    def vector_model(self) -> str:
        """Return the name of the model that made the vectors, "" if there are none (`StoredVectors`).

        Raises:
            StoreError: there is no store, or it cannot be read.
        """
        with self._adapter_rows(None) as (rows, _):
            return "" if rows.model is None else rows.model.model_id

    def _moment(self) -> str:
        return self._now().isoformat(timespec="microseconds")
