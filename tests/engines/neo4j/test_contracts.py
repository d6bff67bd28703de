"""The shipped conformance suites against a store in Neo4j."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_engine.core.models import Chunk, SourceAnswer, SourceQuery
from context_engine.testing import (
    AccessContract,
    AccessProvableContract,
    CalibratableContract,
    CopyableContract,
    GraphStoreContract,
    SinkContract,
    SourceContract,
    TrainableContract,
)
from context_engine.testing.capability_conformance import CLOSED_RULES, CLOSED_SOURCE, OPEN_SOURCE
from tests.engines.neo4j.conftest import Store
from tests.engines.postgres.test_contracts import TestSourceWithAdapters as WithAdapters

pytestmark = pytest.mark.slow

TEXTS = {
    "limits": "The approval limit of the desk is five million. A higher limit needs the committee.",
    "travel": "Hotels are paid up to a limit of 200 a night, with approval by the head of the desk.",
    "records": "Minutes are kept for seven years; FCAA Notice 637(4)(b) asks for it.",
}


class OfStore:
    """Opens sources and sinks with the store of the test."""

    @pytest.fixture(autouse=True)
    def of_store(self, store: Store) -> None:
        self.bank = store


class TestSource(OfStore, SourceContract, AccessContract):
    question = "approval limit"
    changes, questions, timeout_s = 6, 4, 120.0  # a server that just started plans for long

    def make_source(self) -> Any:
        with self.bank.sink() as sink:
            for name, text in TEXTS.items():
                sink.put("notes", name, "", "1", [Chunk(content=text, title="Rules of the desk")])
        return self.bank.source()

    def ask(self, source: Any, text: str | None = None, top_k: int = 10, **more: object) -> SourceAnswer:
        return super().ask(source, text, top_k, **{"timeout_s": 60.0, **more})

    def open_sink(self, specs: Any, rules_of: Any) -> Any:
        return self.bank.sink(*(self._spec(spec) for spec in specs), rules_of=rules_of)

    def open_source(self, spec: Any, rules_of: Any) -> Any:
        return self.bank.source(self._spec(spec), rules_of)

    def _spec(self, spec: Any) -> Any:
        return spec.model_copy(update={"adapter": "neo4j", "connection": "graph", "settings": self.bank.own})


class TestSink(OfStore, SinkContract):
    def open_sink(self) -> Any:
        return self.bank.sink()

    def make_source(self) -> Any:
        return self.bank.source()


class TestSourceWithVectors(TestSource):
    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Store) -> None:
        self.bank = vector_store


class TestSinkWithVectors(TestSink):
    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Store) -> None:
        self.bank = vector_store


class TestSourceWithAdapters(WithAdapters):
    changes, questions, timeout_s = 6, 4, 120.0

    def _spec(self, spec: Any) -> Any:
        return spec.model_copy(update={"adapter": "neo4j", "connection": "graph", "settings": self.bank.own})


def closed_rules(source_id: str) -> str:
    return CLOSED_RULES if source_id == CLOSED_SOURCE else ""


class TestCapabilities(OfStore, AccessProvableContract, CalibratableContract, CopyableContract, GraphStoreContract):
    """A folder of the contracts is a store, whose name is used again when it is gone, or says which store is a copy."""

    def make_store(self, data_dir: Path) -> Any:
        return self._of(data_dir).source(self.bank.spec(OPEN_SOURCE)).store

    def open_sink(self, data_dir: Path) -> Any:
        bank = self._of(data_dir)
        return bank.sink(bank.spec(OPEN_SOURCE), bank.spec(CLOSED_SOURCE), rules_of=closed_rules)

    def open_source(self, source_id: str, data_dir: Path) -> Any:
        bank = self._of(data_dir)
        return bank.source(bank.spec(source_id), closed_rules)

    def query(self, text: str, **fields: Any) -> SourceQuery:
        return replace(super().query(text, **fields), timeout_s=60.0)  # a server that just started plans for long

    def _of(self, data_dir: Path) -> Store:
        self.bank.data_dir = data_dir
        if data_dir not in _NAMES and not any(data_dir.iterdir()):
            gone = next((folder for folder in _NAMES if not folder.exists()), None)
            _NAMES[data_dir] = f"graph_{len(_NAMES)}_store" if gone is None else _NAMES.pop(gone)
            self.bank.own = {"store_name": _NAMES[data_dir]}
            self.bank.empty()
        if data_dir in _NAMES:
            self.bank.own = {"store_name": _NAMES[data_dir]}
        return self.bank


_NAMES: dict[Path, str] = {}


class TestCapabilitiesWithVectors(TestCapabilities, TrainableContract):
    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Store) -> None:
        self.bank = vector_store
