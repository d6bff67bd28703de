"""The shipped conformance suites against a store in OpenSearch."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.core.models import Chunk
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
from tests.engines.postgres.test_contracts import TestSourceWithAdapters as WithAdapters

pytestmark = pytest.mark.slow

TEXTS = {
    "limits": "The approval limit of the desk is five million. A higher limit needs the committee.",
    "travel": "Hotels are paid up to a limit of 200 a night, with approval by the head of the desk.",
    "records": "Minutes are kept for seven years; FCAA Notice 637(4)(b) asks for it.",
}


class OfStore:
    """Opens sources and sinks with the prefix of the test."""

    @pytest.fixture(autouse=True)
    def of_store(self, store: Any) -> None:
        self.bank = store


class TestSource(OfStore, SourceContract, AccessContract):
    question = "approval limit"
    changes, questions = 6, 4

    def make_source(self) -> Any:
        with self.bank.sink() as sink:
            for name, text in TEXTS.items():
                sink.put("notes", name, "", "1", [Chunk(content=text, title="Rules of the desk")])
        return self.bank.source()

    def open_sink(self, specs: Any, rules_of: Any) -> Any:
        return self.bank.sink(*(self._spec(spec) for spec in specs), rules_of=rules_of)

    def open_source(self, spec: Any, rules_of: Any) -> Any:
        return self.bank.source(self._spec(spec), rules_of)

    def _spec(self, spec: Any) -> Any:
        return spec.model_copy(update={"adapter": "opensearch", "connection": "os", "settings": self.bank.own})


class TestSink(OfStore, SinkContract):
    def open_sink(self) -> Any:
        return self.bank.sink()

    def make_source(self) -> Any:
        return self.bank.source()


class TestSourceWithVectors(TestSource):
    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Any) -> None:
        self.bank = vector_store


class TestSinkWithVectors(TestSink):
    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Any) -> None:
        self.bank = vector_store


class TestSourceWithAdapters(WithAdapters):
    changes, questions = 6, 4

    def _spec(self, spec: Any) -> Any:
        return spec.model_copy(update={"adapter": "opensearch", "connection": "os", "settings": self.bank.own})


def closed_rules(source_id: str) -> str:
    return CLOSED_RULES if source_id == CLOSED_SOURCE else ""


class TestCapabilities(OfStore, AccessProvableContract, CalibratableContract, CopyableContract, GraphStoreContract):
    """Every folder of the contracts is a prefix of its own, or says which prefix is a copy."""

    def make_store(self, data_dir: Any) -> Any:
        self._of(data_dir)
        return self.bank.source(self.bank.spec(OPEN_SOURCE)).store

    def open_sink(self, data_dir: Any) -> Any:
        self._of(data_dir)
        return self.bank.sink(self.bank.spec(OPEN_SOURCE), self.bank.spec(CLOSED_SOURCE), rules_of=closed_rules)

    def open_source(self, source_id: str, data_dir: Any) -> Any:
        self._of(data_dir)
        return self.bank.source(self.bank.spec(source_id), closed_rules)

    def _of(self, data_dir: Any) -> None:
        self.bank.data_dir = data_dir
        if not any(data_dir.iterdir()):
            self.bank.own = {**self.bank.own, "index_prefix": f"of_{data_dir.name.lower()}"}


class TestCapabilitiesWithVectors(TestCapabilities, TrainableContract):
    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Any) -> None:
        self.bank = vector_store
