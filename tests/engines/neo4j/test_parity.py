"""A store in Neo4j finds texts, compares vectors and follows links as the embedded base does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from context_engine.adapters.sources.neo4j import search
from context_engine.core.models import Settings
from tests.engines.neo4j.conftest import Store
from tests.engines.parity import QUESTION, AdapterParity, TextParity, cosines, keep
from tests.engines.postgres.test_graph import (
    Banks,
    filled_banks,
    test_chunks_of_the_demo_bank_lead_to_what_they_do_in_an_embedded_base,
)

__all__ = ["test_chunks_of_the_demo_bank_lead_to_what_they_do_in_an_embedded_base"]
pytestmark = pytest.mark.slow


class TestText(TextParity):
    def reopened(self, store: Any, **settings: Any) -> Any:
        store.settings = Settings(**settings)
        return store.empty()


class TestAdapters(AdapterParity):
    def test_an_index_of_the_vectors_serves_an_adapter_too(self, filled: Any, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(search, "APPROXIMATE_FROM", 1)
        keep(filled, "notes")
        by_index, exact = filled.source(), filled.source()
        for key in range(1, 4):
            exact.store.watch.add(key, 0.5)
        assert cosines(by_index.search(QUESTION)) == cosines(exact.search(QUESTION))
        assert by_index.store.watched_recall() in (None, 1.0)


@pytest.fixture(scope="module")
def banks(server: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Banks]:
    with filled_banks(tmp_path_factory.mktemp("demo"), Store(server.url, name="demo").empty()) as banks:
        yield banks
