"""What a store in a server has learnt: the calibrations of its classes, and adapters with their switches.

It is one JSON object beside the state and read with it, so that a search sees both at one moment. The maps of an
adapter, which are large, are kept apart, and read when they are wanted.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import asdict
from typing import TYPE_CHECKING, Any, Final, Generic, NamedTuple, Protocol, TypeVar

from context_engine.adapters.sources.stores.adapter_keeping import ReadAdapters
from context_engine.adapters.sources.stores.adapter_rows import MAPS, AdapterRows, Origin, VectorModel
from context_engine.adapters.sources.stores.calibrating import CalibratedExtent, ClassTexts, KeptCalibration
from context_engine.adapters.sources.stores.searched_store import Q, R, SearchedStore
from context_engine.adapters.sources.stores.trainable_store import READ_S, ClassView, CommittedState
from context_engine.core.concurrency.forking import cached_property
from context_engine.core.models import (
    AccessClass,
    AccessScope,
    CalibrationPart,
    CalibrationPlan,
    ClassCalibration,
    ScopeCalibration,
)
from context_engine.errors import StoreError

_NOTHING: Final[Mapping[str, Any]] = {"moves": 0, "calibrations": [], "adapters": [], "switches": []}
_ADAPTER: Final = "domain, adapter_id, model_id, learnt_from, evidence, made_at, maps, digest"
_SWITCH: Final = "number, domain, learnt_from, adapter_id, switched_at"
_TABLES: Final = f"""
CREATE TABLE adapters ({_ADAPTER}, PRIMARY KEY (domain, adapter_id));
CREATE TABLE adapter_switches ({_SWITCH.replace("number", "number INTEGER PRIMARY KEY AUTOINCREMENT")});
"""


class KeyedClass(Protocol):
    """An access class of a store, with the number by which rows name it."""

    @property
    def key(self) -> int: ...

    @property
    def holds(self) -> AccessClass: ...


class LearntChanges(NamedTuple):
    """What is to be kept.

    Attributes:
        fields: the object.
        new: the maps of each adapter that was not kept before.
        gone: the adapters whose maps are to be deleted.
    """

    fields: Mapping[str, Any]
    new: Mapping[str, bytes]
    gone: Collection[str]


class Learnt:
    """What a store has learnt, as it was read. For one thread.

    Args:
        fields: the object, empty for a store that has learnt nothing yet.
        read_maps: returns the maps of an adapter; b"" if they are gone or damaged.
        store: its name in errors.
    """

    def __init__(self, fields: Mapping[str, Any], read_maps: Callable[[str], bytes], store: str) -> None:
        self._fields: dict[str, Any] = {**_NOTHING, **fields}
        self._maps, self._store = read_maps, store

    @property
    def moves(self) -> int:
        """How often documents moved to another access class."""
        return int(self._fields["moves"])

    def adapters(self, state: CommittedState | None) -> AdapterRows:
        """Return the adapters.

        Args:
            state: of the store; None: its vectors do not matter.
        """
        model = VectorModel(state.model_id, state.dimension) if state is not None and state.model_id else None
        return AdapterRows(self._execute, model, self._store)

    def calibrations(self, domain: str) -> dict[tuple[str, int], KeptCalibration]:
        """Return the calibrations of a domain, by scorer and class."""
        return {
            (scorer, key): KeptCalibration(ScopeCalibration(**fields), CalibratedExtent(*extent))
            for its_domain, scorer, key, fields, extent in self._fields["calibrations"]
            if its_domain == domain
        }

    def version(self, keys: Collection[int]) -> str:
        """Return a text that changes whenever what is learnt for a reader of some classes changes."""
        calibrations = [row for row in self._fields["calibrations"] if row[2] in keys]
        return repr((calibrations, self.adapters(None).version(keys)))

    def calibrated(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Replace the calibrations of a plan."""
        rows = [(part.scorer_id, part.key, calibration, part.state) for part, calibration in found]
        self.replace_calibrations(domain, plan.state, rows)

    def replace_calibrations(
        self,
        domain: str,
        gone: Collection[tuple[str, int]],
        found: Sequence[tuple[str, int, ScopeCalibration, CalibratedExtent]],
    ) -> None:
        """Remove the calibrations of some scorers and classes, and add others."""
        rows = [row for row in self._fields["calibrations"] if row[0] != domain or (row[1], row[2]) not in gone]
        added = [[domain, scorer, key, asdict(calibration), list(extent)] for scorer, key, calibration, extent in found]
        self._fields["calibrations"] = [*rows, *added]

    def copy_calibrations(
        self,
        domain: str,
        source_ids: Sequence[str],
        calibrations: Sequence[ClassCalibration],
        classes: Iterable[KeyedClass],
        texts: ClassTexts,
    ) -> None:
        """Replace the calibrations of a domain by those of another store, if any are given.

        They count as measured on the documents as they are.
        """
        keys = {each.holds: each.key for each in classes}
        measured = [
            (calibration.model_id, keys[access], calibration, texts.extent(keys[access], source_ids))
            for access, calibration in calibrations
            if access in keys
        ]
        if measured:
            self.replace_calibrations(domain, self.calibrations(domain).keys(), measured)

    def adopt(self, other: Learnt) -> None:
        """Take over what another store has learnt; this one has learnt nothing."""
        for row in other._fields["adapters"]:
            other._read_maps(row[1])
        for table, columns in (("adapters", _ADAPTER), ("adapter_switches", _SWITCH)):
            marks = ", ".join("?" * len(columns.split(",")))
            rows = other._tables.execute(f"SELECT {columns} FROM {table}").fetchall()
            self._tables.executemany(f"INSERT INTO {table} VALUES ({marks})", rows)
        self._fields |= {name: other._fields[name] for name in ("moves", "calibrations")}

    def forget_moved(self, keys: Collection[int]) -> None:
        """Remove what was learnt from classes that documents have left or entered."""
        gone = {*self.adapters(None).forget_learnt_from(keys)}
        rows = self._fields["calibrations"]
        kept = [row for row in rows if row[2] not in keys and (row[0], row[1]) not in gone]
        self._fields |= {"calibrations": kept, "moves": self.moves + 1}

    def changes(self) -> LearntChanges:
        """Return what is to be kept; it counts as kept."""
        before = {row[1] for row in self._fields["adapters"]}
        adapters = self._tables.execute(f"SELECT {_ADAPTER} FROM adapters ORDER BY domain, adapter_id").fetchall()
        self._fields |= {
            "adapters": [[*row[:-2], _size(row[-2]), row[-1].hex()] for row in adapters],
            "switches": self._tables.execute(f"SELECT {_SWITCH} FROM adapter_switches ORDER BY number").fetchall(),
        }
        new = {row[1]: row[-2] for row in adapters if row[1] not in before}
        return LearntChanges(self._fields, new, before - {row[1] for row in adapters})

    @cached_property
    def _tables(self) -> sqlite3.Connection:
        """The adapters in memory, for the statements of `AdapterRows`; the size of maps stands for them until they are
        read.
        """
        tables = sqlite3.connect(":memory:", isolation_level=None)
        tables.create_function("length", 1, _size)
        tables.executescript(_TABLES)
        rows = [[*row[:-1], bytes.fromhex(row[-1])] for row in self._fields["adapters"]]
        tables.executemany("INSERT INTO adapters VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
        tables.executemany("INSERT INTO adapter_switches VALUES (?, ?, ?, ?, ?)", self._fields["switches"])
        return tables

    def _execute(self, query: str, values: Mapping[str, Any]) -> Sequence[tuple[Any, ...]]:
        if query == MAPS:
            self._read_maps(values["adapter_id"])
        return self._tables.execute(query, values).fetchall()

    def _read_maps(self, adapter_id: str) -> None:
        unread = "adapter_id = :adapter_id AND typeof(maps) = 'integer'"
        values: dict[str, Any] = {"adapter_id": adapter_id}
        if self._tables.execute(f"SELECT 1 FROM adapters WHERE {unread}", values).fetchone():
            values["maps"] = self._maps(adapter_id)
            self._tables.execute(f"UPDATE adapters SET maps = :maps WHERE {unread}", values)


def _size(maps: bytes | int) -> int:
    return maps if isinstance(maps, int) else len(maps)


class LearntView(ClassView, Protocol):
    """What a caller may read of a store, and what the store has learnt."""

    @property
    def classes(self) -> Sequence[KeyedClass]: ...

    @property
    def learnt(self) -> Learnt: ...


L = TypeVar("L", bound=LearntView)


class LearningStore(SearchedStore[L, R, Q], Generic[L, R, Q]):
    """A store in a server without tables of adapters and calibrations: it keeps them as `Learnt`."""

    if TYPE_CHECKING:

        def _opened(self, access: AccessScope | None, timeout_s: float) -> AbstractContextManager[L]:
            """Yield the view of a caller; None: everything."""

        def _learning(self) -> AbstractContextManager[L]:
            """Yield the view of everything; what is changed in `learnt` is kept at the end."""

    def version(self, access: AccessScope | None, timeout_s: float) -> str:
        """Return the version of the access classes that a caller may read (`Versioned`).

        Raises:
            SourceError, StoreVersionMismatch: the server failed, or the store is of another version.
        """
        with self._opened(access, timeout_s) as view:
            state = view.state
            seen = (state.base_id, state.words_version, state.model_id, view.classes, view.learnt.version(view.keys))
        return hashlib.sha256(repr(seen).encode()).hexdigest()

    def keep_calibrations(
        self, domain: str, plan: CalibrationPlan, found: Sequence[tuple[CalibrationPart, ScopeCalibration]]
    ) -> None:
        """Replace the calibrations of a plan (`Calibratable`)."""
        with self._learning() as view:
            view.learnt.calibrated(domain, plan, found)

    def class_calibrations(self, domain: str) -> list[ClassCalibration]:
        """Return the calibrations of a domain for each scorer and access class (`Copyable`)."""
        with self._opened(None, READ_S) as view:
            holds = {each.key: each.holds for each in view.classes}
            kept = sorted(view.learnt.calibrations(domain).items())
        return [ClassCalibration(holds[key], each.calibration) for (_, key), each in kept if key in holds]

    def _rows(self, view: L) -> AdapterRows:
        return view.learnt.adapters(view.state)

    def _kept_calibrations(self, view: L, domain: str) -> Mapping[tuple[str, int], KeptCalibration]:
        return view.learnt.calibrations(domain)

    @contextmanager
    def _adapter_rows(self, access: AccessScope | None) -> Iterator[ReadAdapters]:
        with self._opened(access, READ_S) as view:
            yield self._rows(view), {each.key: each.holds for each in view.classes}

    @contextmanager
    def _writing_adapters(self, origin: Origin | None = None) -> Iterator[AdapterRows]:
        with self._learning() as view:
            if origin is not None and origin.state != view.learnt.moves:
                raise StoreError("documents have changed their access class meanwhile: learn the adapter again")
            yield self._rows(view)
