"""The adapters that a store keeps with its vectors, and the switches that put them in force, as rows of two tables.

An adapter reveals something about every document it was trained on. So only callers who may read all the access classes
of these documents see it. Each set of classes has its own sequence of switches; the last switch names the adapter in
force, or none. A switch is one row, so a reader sees the state before or after it, and an undo is another row.

The statements are those of SQLite and PostgreSQL alike: every store has the tables `adapters` and `adapter_switches`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from context_engine.core.models import AccessClass, CopiedAdapter, StoredAdapter, adapter_name, scorer_name
from context_engine.errors import StoreError, nearest

if TYPE_CHECKING:
    from context_engine.adapters.sources.domain_adapter import DomainAdapter

Execute = Callable[[str, Mapping[str, Any]], Sequence[tuple[Any, ...]]]
"""Runs a statement with named parameters (`:name`) in the caller's transaction, and returns its rows."""
LEARN: Final = "learn one with 'context-engine eval tune --adapter'"
_LAST: Final = "SELECT max(number) FROM adapter_switches GROUP BY domain, learnt_from"
_ROWS: Final = (
    "SELECT adapters.domain, adapters.adapter_id, model_id, adapters.learnt_from, evidence, made_at, length(maps),"
    " digest, coalesce(last.number, 0) FROM adapters LEFT JOIN adapter_switches AS last"
    " ON last.domain = adapters.domain AND last.learnt_from = adapters.learnt_from"
    f" AND last.adapter_id = adapters.adapter_id AND last.number IN ({_LAST})"
    " WHERE CAST(:domain AS text) IS NULL OR adapters.domain = :domain"
)
MAPS: Final = (
    "SELECT domain, adapter_id, model_id, learnt_from, evidence, made_at, maps, digest FROM adapters"
    " WHERE domain = :domain AND adapter_id = :adapter_id"
)
"""The only statement that reads maps."""
_COLUMNS: Final = ("model_id", "learnt_from", "evidence", "made_at", "maps", "digest")
_KEEP: Final = (
    f"INSERT INTO adapters(domain, adapter_id, {', '.join(_COLUMNS)})"
    f" VALUES (:domain, :adapter_id, {', '.join(f':{name}' for name in _COLUMNS)})"
    f" ON CONFLICT (domain, adapter_id) DO UPDATE SET {', '.join(f'{name} = excluded.{name}' for name in _COLUMNS)}"
)
_FORGET: Final = (
    "DELETE FROM adapters WHERE domain = :domain AND adapter_id = :adapter_id AND NOT EXISTS"
    " (SELECT 1 FROM adapter_switches AS any_switch WHERE any_switch.domain = :domain"
    " AND any_switch.adapter_id = :adapter_id)"
)
_LAST_SWITCH: Final = (
    "SELECT learnt_from, adapter_id FROM adapter_switches WHERE domain = :domain ORDER BY number DESC LIMIT 1"
)
_SWITCH: Final = (
    "INSERT INTO adapter_switches(domain, learnt_from, adapter_id, switched_at)"
    " VALUES (:domain, :learnt_from, :adapter_id, :at)"
)
_SWITCHED_TOGETHER: Final = (
    "SELECT learnt_from, number FROM adapter_switches WHERE domain = :domain AND switched_at = (SELECT switched_at"
    f" FROM adapter_switches WHERE domain = :domain ORDER BY number DESC LIMIT 1) AND number IN ({_LAST})"
    " ORDER BY number"
)
_FORMER: Final = (
    "SELECT adapter_id FROM adapter_switches WHERE domain = :domain AND learnt_from = :learnt_from"
    " AND number < :number ORDER BY number DESC LIMIT 1"
)


class Origin(NamedTuple):
    """Where the documents stood that an adapter was learnt from.

    Attributes:
        state: the number of the store's state when they were read: documents may have moved where it is another now.
        classes: the keys of the access classes that hold them, ascending.
    """

    state: int
    classes: tuple[int, ...]


class VectorModel(NamedTuple):
    """The model and the dimension of a store's vectors."""

    model_id: str
    dimension: int


class _AdapterRow(NamedTuple):
    """An adapter without its maps.

    Attributes:
        learnt_from: the keys of access classes as JSON.
        size: bytes of both maps.
        switch: number of the switch that put it in force; 0: it is not in force.
    """

    domain: str
    adapter_id: str
    model_id: str
    learnt_from: str
    evidence: str
    made_at: str
    size: int
    digest: bytes
    switch: int

    @property
    def classes(self) -> Any:
        """The keys of the access classes it was learnt from; not a list if they are damaged."""
        return _parsed(self.learnt_from)

    def is_readable(self, keys: Collection[int]) -> bool:
        """Return whether one who may read some classes may see it."""
        return isinstance(self.classes, list) and all(key in keys for key in self.classes)

    def fits(self, model: VectorModel | None) -> bool:
        """Return whether it is for the vectors of a model."""
        return model is not None and (self.model_id, self.size) == (model.model_id, 2 * 4 * model.dimension**2)


class AdapterRows:
    """The adapters of a store in one transaction.

    Args:
        execute: runs its statements.
        model: of the store's vectors; None if it has none.
        store: its name in errors.
    """

    def __init__(self, execute: Execute, model: VectorModel | None, store: str = "") -> None:
        self._execute, self.model, self._store = execute, model, store

    def named(self, domain: str, adapter_id: str, keys: Collection[int]) -> str | None:
        """Return the id of an adapter for the store's vectors that a reader of some classes may see, or None."""
        readable = self._readable(keys, domain)
        return next((row.adapter_id for row in readable if row.adapter_id == adapter_id and row.fits(self.model)), None)

    def in_force(self, domain: str, keys: Collection[int]) -> tuple[str | None, str]:
        """Return the id of the adapter that searches of a domain use, None if they use none; and in its place the id of
        one that is switched on for other vectors than the store's, "" if none is.

        Of several adapters that the caller may use, the one learnt from the most classes counts, then the one that was
        switched on last.

        Args:
            keys: all access classes that the caller may read.
        """
        on = [row for row in self._readable(keys, domain) if row.switch]
        on.sort(key=lambda row: (len(row.classes), row.switch), reverse=True)
        usable = [row.adapter_id for row in on if row.fits(self.model)]
        return (usable[0], "") if usable else (None, on[0].adapter_id if on else "")

    def stored(self, keys: Collection[int], domain: str | None = None) -> list[StoredAdapter]:
        """Return the adapters that a reader of some classes may see, oldest first.

        Args:
            domain: None: all domains.
        """
        return [self._stored(row) for row in self._readable(keys, domain)]

    def maps(self, domain: str, adapter_id: str) -> bytes | None:
        """Return the maps of an adapter (`DomainAdapter.as_bytes`); None if it is missing or damaged."""
        rows = self._execute(MAPS, {"domain": domain, "adapter_id": adapter_id})
        if not rows or _digest(*rows[0][:-1]) != rows[0][-1]:
            return None
        *_, model_id, _, _, _, maps, _ = rows[0]
        return maps if adapter_name(model_id, maps) == adapter_id else None

    def damaged(self) -> Iterator[tuple[str, str]]:
        """Yield the domain and the id of every damaged adapter."""
        for row in self._rows(None):
            if self.maps(row.domain, row.adapter_id) is None:
                yield row.domain, row.adapter_id

    def version(self, keys: Collection[int]) -> list[tuple[Any, ...]]:
        """Return what answers to a reader of some classes depend on: a value that changes with it."""
        rows = sorted(self._readable(keys, None), key=lambda row: row.switch)
        return [(row.domain, row.adapter_id, row.model_id, row.digest, row.switch > 0) for row in rows]

    def keep(
        self, domain: str, adapter: DomainAdapter, learnt_from: Collection[int], evidence: str, made_at: str
    ) -> StoredAdapter:
        """Store an adapter without putting it in force; if it is stored already, only its evidence is replaced.

        Args:
            learnt_from: the access classes of the training documents.
            evidence: a JSON object.
            made_at: ISO 8601.

        Raises:
            ValueError: a number of its maps is not finite, or too large.
        """
        adapter.check()
        maps = adapter.as_bytes()
        self._keep(domain, adapter.adapter_id, adapter.model_id, _listed(learnt_from), evidence, made_at, maps)
        kept = self.stored(learnt_from, domain)
        return next(stored for stored in kept if stored.adapter_id == adapter.adapter_id)

    def copied(self, domain: str, holds: Mapping[int, AccessClass]) -> list[CopiedAdapter]:
        """Return the usable adapters of a domain, in the order in which they were put in force.

        Args:
            holds: all access classes, by their keys.
        """
        rows = sorted(self._readable(holds, domain), key=lambda row: row.switch)
        usable = [(row, self.maps(domain, row.adapter_id)) for row in rows if row.fits(self.model)]
        return [
            CopiedAdapter(
                row.adapter_id, row.model_id, frozenset(holds[key] for key in row.classes), row.evidence, row.made_at,
                maps, row.switch > 0,
            )
            for row, maps in usable if maps is not None
        ]  # fmt: skip

    def keep_copied(
        self, domain: str, adapters: Iterable[CopiedAdapter], holds: Mapping[int, AccessClass], *, at: str
    ) -> list[str]:
        """Keep those of some adapters that are for the store's vectors, and whose classes it has; return their ids.

        Args:
            holds: as in `copied`.
            at: the time of the call, ISO 8601.
        """
        keys, kept = {access: key for key, access in holds.items()}, list[str]()
        for adapter in adapters:
            if not adapter.access <= keys.keys():
                continue
            name = (domain, adapter.adapter_id)
            row = (
                adapter.model_id,
                _listed(keys[access] for access in adapter.access),
                adapter.evidence,
                adapter.made_at,
            )
            if not _AdapterRow(*name, *row, len(adapter.maps), b"", 0).fits(self.model):
                continue
            self._keep(*name, *row, adapter.maps)
            kept.append(adapter.adapter_id)
            is_on = any(known.adapter_id == adapter.adapter_id and known.switch for known in self._rows(domain))
            if adapter.in_force and not is_on:
                self._switch(domain, row[1], adapter.adapter_id, at)
        return kept

    def forget(self, domain: str, adapter_ids: Collection[str]) -> None:
        """Delete adapters of a domain that no switch names."""
        for adapter_id in adapter_ids:
            self._execute(_FORGET, {"domain": domain, "adapter_id": adapter_id})

    def forget_learnt_from(self, keys: Collection[int]) -> list[tuple[str, str]]:
        """Delete the adapters that were learnt from any of some classes, with their switches.

        Returns:
            The domain and the scorer of each, whose calibrations go too.
        """
        gone = [row for row in self._rows(None) if _among(row.learnt_from, keys)]
        switched = self._execute("SELECT DISTINCT learnt_from FROM adapter_switches", {})
        for learnt_from in {row.learnt_from for row in gone} | {text for (text,) in switched if _among(text, keys)}:
            for table in ("adapters", "adapter_switches"):
                self._execute(f"DELETE FROM {table} WHERE learnt_from = :learnt_from", {"learnt_from": learnt_from})
        return [(row.domain, scorer_name(row.model_id, row.adapter_id)) for row in gone]

    def switchable(self, domain: str, adapter_id: str | None, keys: Collection[int]) -> list[StoredAdapter]:
        """Return the adapters to switch: the named one, or all that are in force.

        Args:
            adapter_id: None: all that are in force.
            keys: the access classes that the caller may read.

        Raises:
            StoreError: there is no such adapter, it is for other vectors than the store's, or it is damaged.
        """
        readable = self.stored(keys, domain)
        if adapter_id is None:
            return [adapter for adapter in readable if adapter.in_force]
        adapter = next((adapter for adapter in readable if adapter.adapter_id == adapter_id), None)
        if adapter is None:
            others = nearest(adapter_id, (adapter.adapter_id for adapter in readable))
            hint = others or f" The domain has none: {LEARN}."
            raise StoreError(f"{self._store} keeps no adapter {adapter_id} for {domain}.{hint}")
        if adapter.problem:
            model = self.model
            vectors = f"its vectors: {model.dimension} numbers of {model.model_id!r}" if model else "it has no vectors"
            raise StoreError(f"the adapter {adapter_id} in {self._store} is {adapter.problem} ({vectors}): {LEARN}")
        return [adapter]

    def switch(self, domain: str, chosen: Iterable[StoredAdapter], *, on: bool, at: str) -> None:
        """Put adapters in force, each for its own set of classes, or switch them off.

        Repeating the last switch writes nothing, so there is nothing to undo.

        Args:
            on: True: put them in force; False: switch them off.
            at: the time of the call, ISO 8601.

        Raises:
            StoreError: an adapter no longer exists.
        """
        for adapter in chosen:
            learnt_from, adapter_id = _listed(adapter.learnt_from), adapter.adapter_id
            if (adapter_id, learnt_from) not in {(row.adapter_id, row.learnt_from) for row in self._rows(domain)}:
                raise StoreError(f"the adapter {adapter_id} is gone: its documents were moved meanwhile")
            switched = (learnt_from, adapter_id if on else None)
            if [*self._execute(_LAST_SWITCH, {"domain": domain})] != [switched]:
                self._switch(domain, *switched, at)

    def undo(self, domain: str, *, at: str) -> bool:
        """Undo the last switch of a domain; a second call restores it. Return whether there was a switch.

        All switches of one call are undone together; each set of classes returns to its previous adapter.
        """
        last = self._execute(_SWITCHED_TOGETHER, {"domain": domain})
        for learnt_from, number in last:
            asked = {"domain": domain, "learnt_from": learnt_from, "number": number}
            former = self._execute(_FORMER, asked)
            self._switch(domain, learnt_from, former[0][0] if former else None, at)
        return bool(last)

    def _keep(self, *row: Any) -> None:
        """Write a row, replacing that of the same adapter."""
        names = ("domain", "adapter_id", *_COLUMNS)
        self._execute(_KEEP, dict(zip(names, (*row, _digest(*row)), strict=True)))

    def _switch(self, domain: str, learnt_from: str, adapter_id: str | None, at: str) -> None:
        values = {"domain": domain, "learnt_from": learnt_from, "adapter_id": adapter_id, "at": at}
        self._execute(_SWITCH, values)

    def _rows(self, domain: str | None) -> list[_AdapterRow]:
        rows = [_AdapterRow(*row) for row in self._execute(_ROWS, {"domain": domain})]
        return sorted(rows, key=lambda row: (row.domain, row.made_at, row.adapter_id))

    def _readable(self, keys: Collection[int], domain: str | None) -> list[_AdapterRow]:
        return [row for row in self._rows(domain) if row.is_readable(keys)]

    def _stored(self, row: _AdapterRow) -> StoredAdapter:
        sound = self.maps(row.domain, row.adapter_id) is not None
        problem = "damaged" if not sound else "" if row.fits(self.model) else "for other vectors"
        evidence = _parsed(row.evidence)
        return StoredAdapter(
            row.domain,
            row.adapter_id,
            row.model_id,
            tuple(row.classes),
            evidence if isinstance(evidence, dict) else {},
            row.made_at,
            row.switch > 0,
            problem,
        )


def _parsed(text: str) -> Any:
    """Return a JSON value, None if it is damaged."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None


def _among(learnt_from: str, keys: Collection[int]) -> bool:
    """Return whether a list of classes, as JSON, has any of some keys."""
    classes = _parsed(learnt_from)
    return isinstance(classes, list) and any(key in keys for key in classes)


def _listed(keys: Iterable[int]) -> str:
    """Return a set of classes in the form that the rows hold."""
    return json.dumps(sorted(keys))


def _digest(
    domain: str, adapter_id: str, model_id: str, learnt_from: str, evidence: str, made_at: str, maps: bytes
) -> bytes:
    text = "\0".join((domain, adapter_id, model_id, learnt_from, evidence, made_at))
    return sha256(text.encode("utf-8", "surrogatepass") + b"\0" + maps).digest()
