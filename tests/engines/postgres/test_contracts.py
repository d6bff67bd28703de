"""The shipped conformance suites against a store in PostgreSQL."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.core.models import AccessScope, Chunk
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

pytestmark = pytest.mark.slow

TEXTS = {
    "limits": "The approval limit of the desk is five million. A higher limit needs the committee.",
    "travel": "Hotels are paid up to a limit of 200 a night, with approval by the head of the desk.",
    "records": "Minutes are kept for seven years; FCAA Notice 637(4)(b) asks for it.",
}


def closed_rules(source_id: str) -> str:
    return CLOSED_RULES if source_id == CLOSED_SOURCE else ""


class OfStore:
    """Opens sources and sinks in the schema of the test."""

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
        return spec.model_copy(update={"adapter": "postgres", "connection": "pg", "settings": self.bank.own})


class TestSink(OfStore, SinkContract):
    def open_sink(self) -> Any:
        return self.bank.sink()

    def make_source(self) -> Any:
        return self.bank.source()


class TestSourceWithVectors(TestSource):
    changes, questions = 12, 8

    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Any) -> None:
        self.bank = vector_store


class TestSourceByBM25(TestSource):
    @pytest.fixture(autouse=True)
    def of_store(self, ranking_store: Any) -> None:
        self.bank = ranking_store


class TestSinkWithVectors(TestSink):
    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Any) -> None:
        self.bank = vector_store


class TestCapabilities(OfStore, AccessProvableContract, CalibratableContract, CopyableContract, GraphStoreContract):
    """Every folder of the contracts is a schema of its own, or says which schema is a copy."""

    def make_store(self, data_dir: Any) -> Any:
        self._of(data_dir)
        return self.bank.source(self.bank.spec(OPEN_SOURCE)).store

    def open_sink(self, data_dir: Any) -> Any:
        self._of(data_dir)
        specs = [self.bank.spec(OPEN_SOURCE), self.bank.spec(CLOSED_SOURCE)]
        return self.bank.sink(*specs, rules_of=closed_rules)

    def open_source(self, source_id: str, data_dir: Any) -> Any:
        self._of(data_dir)
        return self.bank.source(self.bank.spec(source_id), closed_rules)

    def _of(self, data_dir: Any) -> None:
        self.bank.data_dir = data_dir
        if not any(data_dir.iterdir()):
            self.bank.own = {"schema_name": f"of_{data_dir.name.lower()}"}


class TestCapabilitiesWithVectors(TestCapabilities, TrainableContract):
    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Any) -> None:
        self.bank = vector_store


class TestSourceWithAdapters(OfStore, AccessContract):
    """With every change an adapter is learnt from what everybody may read, and another from all there is."""

    changes, questions = 6, 6
    compares_versions = False  # what everybody may read is learnt from anew, too

    @pytest.fixture(autouse=True)
    def of_store(self, vector_store: Any) -> None:
        self.bank, self.learnt = vector_store, 0

    @contextmanager
    def open_sink(self, specs: Any, rules_of: Any) -> Iterator[Any]:
        specs = [self._spec(spec) for spec in specs]
        with self.bank.sink(*specs, rules_of=rules_of) as sink:
            yield sink
        source = self.bank.source(specs[0], rules_of)
        self.learnt += 1
        for seed, access in ((0, AccessScope()), (self.learnt, None)):
            held = source.store.held_vectors([spec.id for spec in specs], access=access)
            maps = np.random.default_rng(seed).standard_normal((2, 64, 64))
            adapter = DomainAdapter(self.bank.embedder.model_id, *maps)
            kept = source.store.keep_adapter(self.access_domain.domain, adapter, {}, held.origin)
            source.store.use_adapter(self.access_domain.domain, kept.adapter_id)
        source.close()

    def open_source(self, spec: Any, rules_of: Any) -> Any:
        return self.bank.source(self._spec(spec), rules_of)

    def _spec(self, spec: Any) -> Any:
        return spec.model_copy(update={"adapter": "postgres", "connection": "pg", "settings": self.bank.own})
