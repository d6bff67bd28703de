"""Which adapter a search uses: the one in force for what its caller may read, none, or one that is named."""

from __future__ import annotations

import sqlite3
from collections import OrderedDict
from collections.abc import Collection
from typing import TYPE_CHECKING, Final, NamedTuple

from context_engine.adapters.sources.local.adapter_store import maps_of, named
from context_engine.adapters.sources.local.adapter_switches import in_force, switched_on
from context_engine.adapters.sources.local.schema import Model, model_of
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import scorer_name

if TYPE_CHECKING:
    from context_engine.adapters.sources.local.domain_adapter import DomainAdapter


AUTO: Final = "auto"
"""The adapter in force."""
OFF: Final = "off"
"""None: questions and passages are compared as the model has them."""
_MOST_BYTES: Final = 1 << 26
"""Of the maps that are kept in memory, at least one adapter: 56 of 384 numbers, 8 of 1,024."""


class ChosenAdapter(NamedTuple):
    """What a search uses.

    Attributes:
        adapter: None: the model's own vectors.
        unusable: the id of the adapter that it should have used: it is damaged, for other vectors than the base's, or
            there is none of this name for the caller; "" where all is well.
    """

    adapter: DomainAdapter | None = None
    unusable: str = ""


class AdapterReader:
    """Reads adapters of one base; keeps the maps of the last few in memory. Safe for several threads.

    An id names the content, so what is kept stays right whatever is switched or kept later.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._held: OrderedDict[tuple[str, str, str], DomainAdapter] = OrderedDict()

    def chosen(
        self, connection: sqlite3.Connection, domain: str, choice: str, partitions: Collection[int]
    ) -> ChosenAdapter:
        """Return what a search uses.

        Args:
            connection: a reader's, in a transaction.
            domain: of the search.
            choice: AUTO, OFF, or the id of an adapter.
            partitions: the keys of those that the caller may read.
        """
        model = model_of(connection)
        if model is None or choice == OFF:
            return ChosenAdapter()
        name = _id_of(connection, domain, choice, partitions, model)
        if name is None:
            missed = switched_on(connection, domain, partitions) if choice == AUTO else choice
            return ChosenAdapter(unusable=missed or "")
        adapter = self._read(connection, domain, name, model)
        return ChosenAdapter(unusable=name) if adapter is None else ChosenAdapter(adapter)

    def _read(self, connection: sqlite3.Connection, domain: str, adapter_id: str, model: Model) -> DomainAdapter | None:
        """Return a stored adapter of the base's model, None where it is damaged."""
        key = (domain, adapter_id, model.model_id)
        with self._lock:
            held = self._held.get(key)
            if held is not None:
                self._held.move_to_end(key)
                return held
        maps = maps_of(connection, domain, adapter_id)
        if maps is None:
            return None
        from context_engine.adapters.sources.local.domain_adapter import DomainAdapter  # only here: it needs numpy

        try:
            held = DomainAdapter.from_bytes(model.model_id, maps, model.dimension)
        except ValueError:
            return None
        with self._lock:
            self._held[key] = held
            while len(self._held) > max(_MOST_BYTES // (2 * held.query.nbytes), 1):
                self._held.popitem(last=False)
        return held


def scorer_of(connection: sqlite3.Connection, domain: str, choice: str, partitions: Collection[int]) -> str:
    """Return what the cosines of a search are known by: the model, the model and an adapter, or "" without vectors.

    Needs no numpy. The arguments are those of `AdapterReader.chosen`.
    """
    model = model_of(connection)
    if model is None:
        return ""
    name = None if choice == OFF else _id_of(connection, domain, choice, partitions, model)
    sound = name is not None and maps_of(connection, domain, name) is not None
    return scorer_name(model.model_id, name if sound else None)


def _id_of(
    connection: sqlite3.Connection, domain: str, choice: str, partitions: Collection[int], model: Model
) -> str | None:
    if choice == AUTO:
        return in_force(connection, domain, partitions, model)
    return named(connection, domain, choice, partitions, model)
