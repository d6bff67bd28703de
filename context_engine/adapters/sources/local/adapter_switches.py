"""The switches that put adapters in force.

Each set of training partitions has its own sequence of switches; the last switch names the adapter in force, or none. A
switch is one row, so a reader sees the state before or after it, and an undo is another row.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from cachetools import LRUCache

from context_engine.adapters.sources.local import schema
from context_engine.adapters.sources.local.adapter_store import (
    FITTING,
    READABLE,
    asked_of,
    listed,
    maps_of,
    named,
    read_all,
    writing,
)
from context_engine.adapters.sources.local.schema import Model, model_of
from context_engine.core.concurrency.forking import Lock
from context_engine.core.models import StoredAdapter, scorer_name
from context_engine.errors import StoreError, nearest

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter


_LEARN: Final = "learn one with 'context-engine eval tune --adapter'"
_LAST_SWITCHES: Final = "SELECT max(number) FROM adapter_switches WHERE domain = :domain GROUP BY learnt_from"
_LAST_SWITCH: Final = (
    "SELECT learnt_from, adapter_id FROM adapter_switches WHERE domain = ? ORDER BY number DESC LIMIT 1"
)
_SWITCHED_ON: Final = f"""
FROM adapter_switches JOIN adapters USING (domain, adapter_id, learnt_from)
WHERE number IN ({_LAST_SWITCHES}) AND {READABLE}
"""
_WIDEST: Final = "ORDER BY json_array_length(adapters.learnt_from) DESC, number DESC LIMIT 1"
_IN_FORCE: Final = f"SELECT adapters.adapter_id {_SWITCHED_ON} AND {FITTING} {_WIDEST}"
_FOR_ANY_VECTORS: Final = f"SELECT adapters.adapter_id {_SWITCHED_ON} {_WIDEST}"


def in_force(connection: sqlite3.Connection, domain: str, partitions: Collection[int], model: Model) -> str | None:
    """Return the id of the adapter that searches of a domain use; None if they use none.

    Of several adapters that the caller may use, the one learnt from the most partitions counts, then the one that was
    switched on last.

    Args:
        partitions: the keys of all partitions that the caller may read.
        model: of the base's vectors; adapters for other models are skipped.
    """
    row = connection.execute(_IN_FORCE, asked_of(domain, partitions, model)).fetchone()
    return None if row is None else str(row[0])


def switched_on(connection: sqlite3.Connection, domain: str, partitions: Collection[int]) -> str | None:
    """Return the id of the switched-on adapter, even if it is for other vectors; None if none is switched on.

    Args:
        connection: a reader's, in a transaction.
        partitions: the keys of all partitions that the caller may read.
    """
    asked = {"domain": domain, "partitions": json.dumps(list(partitions))}
    row = connection.execute(_FOR_ANY_VECTORS, asked).fetchone()
    return None if row is None else str(row[0])


def switchable(
    connection: sqlite3.Connection, root: Path, domain: str, adapter_id: str | None, partitions: Collection[int]
) -> list[StoredAdapter]:
    """Return the adapters to switch: the named one, or all that are in force.

    Args:
        adapter_id: None: all that are in force.
        partitions: the keys of the partitions that the caller may read.

    Raises:
        StoreError: there is no such adapter, it is for other vectors than the base's, or it is damaged.
    """
    readable = read_all(connection, partitions, domain)
    if adapter_id is None:
        return [adapter for adapter in readable if adapter.in_force]
    adapter = next((adapter for adapter in readable if adapter.adapter_id == adapter_id), None)
    if adapter is None:
        kept = nearest(adapter_id, (adapter.adapter_id for adapter in readable)) or f" The domain has none: {_LEARN}."
        raise StoreError(f"{root} keeps no adapter {adapter_id} for {domain}.{kept}")
    if adapter.problem:
        model = schema.model_of(connection)
        vectors = f"its vectors: {model.dimension} numbers of {model.model_id!r}" if model else "it has no vectors"
        raise StoreError(f"the adapter {adapter_id} in {root} is {adapter.problem} ({vectors}): {_LEARN}")
    return [adapter]


def switch(root: Path, domain: str, found: Iterable[StoredAdapter], *, on: bool, at: str) -> None:
    """Put adapters in force, each for its own set of partitions, or switch them off.

    Repeating the last switch writes nothing, so there is nothing to undo.

    Args:
        on: True: put them in force; False: switch them off.
        at: the time of the call, ISO 8601.

    Raises:
        StoreError: an adapter no longer exists, or the base cannot be written.
    """
    with writing(root) as connection:
        for adapter in found:
            learnt_from = listed(adapter.learnt_from)
            stored = connection.execute(
                "SELECT 1 FROM adapters WHERE (domain, adapter_id, learnt_from) = (?, ?, ?)",
                (domain, adapter.adapter_id, learnt_from),
            ).fetchone()
            if stored is None:
                raise StoreError(f"the adapter {adapter.adapter_id} is gone: its documents were moved meanwhile")
            chosen = (learnt_from, adapter.adapter_id if on else None)
            if connection.execute(_LAST_SWITCH, (domain,)).fetchone() != chosen:
                connection.execute(
                    "INSERT INTO adapter_switches(domain, learnt_from, adapter_id, switched_at) VALUES (?, ?, ?, ?)",
                    (domain, *chosen, at),
                )


def undo(root: Path, domain: str, *, at: str) -> bool:
    """Undo the last switch of a domain; a second call restores it. Return whether there was a switch.

    All switches of one call are undone together; each set of partitions returns to its previous adapter.

    Raises:
        StoreError: the base cannot be written.
    """
    with writing(root) as connection:
        last = connection.execute(
            "SELECT learnt_from, number FROM adapter_switches WHERE domain = :domain AND switched_at = (SELECT"
            " switched_at FROM adapter_switches WHERE domain = :domain ORDER BY number DESC LIMIT 1) AND number IN"
            f" ({_LAST_SWITCHES}) ORDER BY number",
            {"domain": domain},
        ).fetchall()
        for learnt_from, number in last:
            connection.execute(
                "INSERT INTO adapter_switches(domain, learnt_from, adapter_id, switched_at) VALUES (:domain, :of,"
                " (SELECT adapter_id FROM adapter_switches WHERE domain = :domain AND learnt_from = :of"
                " AND number < :number ORDER BY number DESC LIMIT 1), :at)",
                {"domain": domain, "of": learnt_from, "number": number, "at": at},
            )
    return bool(last)


AUTO: Final = "auto"
"""The adapter in force."""
OFF: Final = "off"
"""None: questions and passages are compared as the model has them."""
_MOST_BYTES: Final = 1 << 26
"""Of the maps that are kept in memory, at least one adapter: 56 of 384 numbers, 8 of 1,024."""


class ChosenAdapter(NamedTuple):
    """The adapter that a search uses.

    Attributes:
        adapter: None: the model's own vectors.
        unusable: the id of the requested adapter if it cannot be used: it is damaged, for other vectors than the
            base's, or not visible to the caller; else "".
    """

    adapter: DomainAdapter | None = None
    unusable: str = ""


class AdapterReader:
    """Reads adapters of one base; keeps the maps of the last few in memory. Safe for several threads.

    An id identifies the content, so cached maps stay valid after later switches.
    """

    def __init__(self) -> None:
        self._lock = Lock()
        self._kept: LRUCache[tuple[str, str, str], DomainAdapter] = LRUCache(_MOST_BYTES, getsizeof=_size)

    def chosen(
        self, connection: sqlite3.Connection, domain: str, choice: str, partitions: Collection[int]
    ) -> ChosenAdapter:
        """Return the adapter for a search.

        Args:
            connection: a reader's, in a transaction.
            domain: of the search.
            choice: AUTO, OFF, or the id of an adapter.
            partitions: the keys of the partitions that the caller may read.
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
        """Return a stored adapter of the base's model, None if it is damaged."""
        key = (domain, adapter_id, model.model_id)
        with self._lock:
            kept = self._kept.get(key)
        if kept is not None:
            return kept
        maps = maps_of(connection, domain, adapter_id)
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


def scorer_of(connection: sqlite3.Connection, domain: str, choice: str, partitions: Collection[int]) -> str:
    """Return the scorer id of a search's cosines: the model, the model with an adapter, or "" without vectors.

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
