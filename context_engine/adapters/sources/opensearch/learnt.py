"""What a store has learnt: the calibrations of its classes, and adapters with their switches.

It is one document beside the state and read with it in one call, so that a search sees both at one moment. It is
replaced as it was read: of two who change it at once, one is refused. The maps of an adapter, which are large, are a
document of their own, read when they are wanted.
"""

from __future__ import annotations

import base64
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from functools import cached_property
from typing import Any, Final

from context_engine.adapters.sources.opensearch.server import CONFLICT, Calls
from context_engine.adapters.sources.stores.adapter_rows import MAPS, AdapterRows, VectorModel
from context_engine.adapters.sources.stores.trainable_store import CalibratedExtent, KeptCalibration
from context_engine.core.models import ScopeCalibration
from context_engine.errors import SourceNotFound, StoreLocked

_NOTHING: Final[Mapping[str, Any]] = {"moves": 0, "calibrations": [], "adapters": [], "switches": []}
_ADAPTER: Final = "domain, adapter_id, model_id, learnt_from, evidence, made_at, maps, digest"
_SWITCH: Final = "number, domain, learnt_from, adapter_id, switched_at"
_TABLES: Final = f"""
CREATE TABLE adapters ({_ADAPTER}, PRIMARY KEY (domain, adapter_id));
CREATE TABLE adapter_switches ({_SWITCH.replace("number", "number INTEGER PRIMARY KEY AUTOINCREMENT")});
"""


class LearntDocument:
    """The document as it was read; what is changed is kept by `write`. For one thread.

    Args:
        prefix: begins the names of the store's indices.
        document: as the server gives it.
    """

    def __init__(self, calls: Calls, prefix: str, document: Mapping[str, Any]) -> None:
        self._calls, self._prefix = calls, prefix
        self._version = version_of(document) if document.get("found") else "op_type=create"
        self._fields: dict[str, Any] = {**_NOTHING, **document.get("_source", {})}

    @property
    def moves(self) -> int:
        """How often documents moved to another access class."""
        return int(self._fields["moves"])

    def adapters(self, model: VectorModel | None) -> AdapterRows:
        """Return the adapters.

        Args:
            model: of the store's vectors.
        """
        return AdapterRows(self._execute, model, f"the store '{self._prefix}-*'")

    def calibrations(self, domain: str) -> dict[tuple[str, int], KeptCalibration]:
        """Return the calibrations of a domain, by scorer and class."""
        return {
            (scorer, key): KeptCalibration(ScopeCalibration(**fields), CalibratedExtent(*extent))
            for its_domain, scorer, key, fields, extent in self._fields["calibrations"]
            if its_domain == domain
        }

    def version(self, keys: Collection[int]) -> str:
        """Return what answers to a reader of some classes depend on: a text that changes with it."""
        calibrations = [row for row in self._fields["calibrations"] if row[2] in keys]
        return repr((calibrations, self.adapters(None).version(keys)))

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

    def forget_moved(self, keys: Collection[int]) -> None:
        """Remove what was learnt from classes that documents have left or entered."""
        gone = {*self.adapters(None).forget_learnt_from(keys)}
        rows = self._fields["calibrations"]
        kept = [row for row in rows if row[2] not in keys and (row[0], row[1]) not in gone]
        self._fields |= {"calibrations": kept, "moves": self.moves + 1}

    def write(self) -> None:
        """Replace the document on the server.

        Raises:
            StoreLocked: another process has replaced it meanwhile.
            SourceError: the server failed.
        """
        before = {row[1] for row in self._fields["adapters"]}
        adapters = self._tables.execute(f"SELECT {_ADAPTER} FROM adapters ORDER BY domain, adapter_id").fetchall()
        for _, adapter_id, *_, maps, _ in adapters:
            if adapter_id not in before:  # first, so that nobody reads of maps that are not there yet
                self._calls.ask("PUT", self._path(adapter_id), {"maps": base64.b64encode(maps).decode()})
        self._fields |= {
            "adapters": [[*row[:-2], _size(row[-2]), row[-1].hex()] for row in adapters],
            "switches": self._tables.execute(f"SELECT {_SWITCH} FROM adapter_switches ORDER BY number").fetchall(),
        }
        answer = self._calls.answer("PUT", f"{self._prefix}-state/_doc/learnt?{self._version}", self._fields)
        if answer.status == CONFLICT:
            raise StoreLocked(f"another process changes what the store {self._prefix!r} has learnt: try again")
        self._version = version_of(answer.json())
        for adapter_id in before - {row[1] for row in adapters}:
            self._calls.ask("DELETE", self._path(adapter_id))

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

    def _maps(self, adapter_id: str) -> bytes:
        """Return the maps of an adapter; without any, or damaged ones, their digest is not the adapter's."""
        try:
            return base64.b64decode(self._calls.ask("GET", self._path(adapter_id))["_source"]["maps"])
        except (SourceNotFound, ValueError, KeyError, TypeError):
            return b""

    def _path(self, adapter_id: str) -> str:
        return f"{self._prefix}-state/_doc/maps-{adapter_id}"


def _size(maps: bytes | int) -> int:
    return maps if isinstance(maps, int) else len(maps)


def version_of(document: Mapping[str, Any]) -> str:
    """Return the version of a document that was read or written, as the next change of it must name it."""
    return f"if_seq_no={document['_seq_no']}&if_primary_term={document['_primary_term']}"
