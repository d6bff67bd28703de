"""A store in OpenSearch finds texts, compares vectors and follows links as the embedded base does."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.engines.opensearch.conftest import Store
from tests.engines.parity import AdapterParity, TextParity
from tests.engines.postgres.test_graph import (
    Banks,
    filled_banks,
    test_chunks_of_the_demo_bank_lead_to_what_they_do_in_an_embedded_base,
)

__all__ = ["test_chunks_of_the_demo_bank_lead_to_what_they_do_in_an_embedded_base"]
pytestmark = pytest.mark.slow


class TestText(TextParity):
    def reopened(self, store: Any, **settings: Any) -> Any:
        return type(store)(store.connection.base_url, store.embedder, **settings)


class TestAdapters(AdapterParity):
    pass


@pytest.fixture(scope="module")
def banks(node: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Banks]:
    with filled_banks(tmp_path_factory.mktemp("demo"), Store(node.url)) as banks:
        yield banks
