"""The shipped conformance suites against a store in Neo4j."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from context_engine.core.models import Chunk, SourceAnswer, SourceQuery
from context_engine.testing import AccessContract, SinkContract, SourceContract
from context_engine.testing.capability_conformance import CLOSED_RULES, CLOSED_SOURCE, OPEN_SOURCE
from context_engine.testing.graph_conformance import GraphStoreContract
from tests.engines.neo4j.conftest import Store

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
    changes, questions = 6, 4

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


def rules_of(source_id: str) -> str:
    return CLOSED_RULES if source_id == CLOSED_SOURCE else ""


class TestGraph(GraphStoreContract):
    """A data folder of the contract is a store, whose name is used again when the folder is gone."""

    @pytest.fixture(autouse=True)
    def of_server(self, server: Any) -> None:
        self.url = server.url

    def of(self, data_dir: Path) -> Store:
        if data_dir not in _STORES:
            gone = next((folder for folder in _STORES if not folder.exists()), None)
            name = f"graph_{len(_STORES)}" if gone is None else _STORES.pop(gone).own["store_name"]
            _STORES[data_dir] = Store(self.url, name=name).empty()
        return _STORES[data_dir]

    def query(self, text: str, **fields: Any) -> SourceQuery:
        return replace(super().query(text, **fields), timeout_s=60.0)  # a server that just started plans for long

    def open_sink(self, data_dir: Path) -> Any:
        store = self.of(data_dir)
        return store.sink(store.spec(OPEN_SOURCE), store.spec(CLOSED_SOURCE), rules_of=rules_of)

    def open_source(self, source_id: str, data_dir: Path) -> Any:
        store = self.of(data_dir)
        return store.source(store.spec(source_id), rules_of)


_STORES: dict[Path, Store] = {}
