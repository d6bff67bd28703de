"""A prefix of its own for every test, in a node that this test run starts."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext
from context_engine.adapters.sources.opensearch import open_opensearch
from context_engine.core.models import Settings, SourceSpec
from context_engine.core.protocols import Embedder, Sink, Source
from context_engine.settings.connections import Connection
from context_engine.testing import FakeEmbedder, FixedClock
from tests.opensearch_server import OpenSearchNode

_NUMBERS = count(1)


class Store:
    """A store in a node, opened as the adapter opens it."""

    def __init__(self, url: str, embedder: Embedder | None = None, **settings: Any) -> None:
        self.embedder, self.settings, self.repair, self.clock = embedder, Settings(**settings), False, FixedClock()
        self.own: dict[str, Any] = {"index_prefix": f"store_{os.getpid()}_{next(_NUMBERS)}", "shards": 2, "replicas": 0}
        self.connection = Connection(base_url=url, max_connections=16)

    data_dir = Path()
    """A folder that may be a trial's."""

    def spec(self, source_id: str = "notes", **fields: Any) -> SourceSpec:
        return SourceSpec(
            **{"type": "bank_sop", **fields}, id=source_id, adapter="opensearch", connection="os", settings=self.own
        )

    def context(self, rules_of: Callable[[str], str] = lambda _id: "") -> SourceContext:
        return SourceContext(
            domain="NPA",
            data_dir=lambda: self.data_dir,
            connection=lambda _name: self.connection,
            clock=self.clock,
            shared=lambda key, make: make(),
            settings=self.settings,
            embedder=lambda: self.embedder,
            rules_of=rules_of,
        )

    def sink(
        self, *specs: SourceSpec, rules_of: Callable[[str], str] = lambda _id: "", dry_run: bool = False
    ) -> AbstractContextManager[Sink]:
        assert open_opensearch.open_sink is not None
        return open_opensearch.open_sink(
            specs or [self.spec()], self.context(rules_of), SinkOptions(dry_run=dry_run, repair=self.repair)
        )

    def source(self, spec: SourceSpec | None = None, rules_of: Callable[[str], str] = lambda _id: "") -> Source:
        return open_opensearch(spec or self.spec(), self.context(rules_of))


@pytest.fixture
def store(node: OpenSearchNode) -> Store:
    return Store(node.url)


@pytest.fixture
def vector_store(node: OpenSearchNode) -> Store:
    """A store whose embedder makes vectors of words."""
    return Store(node.url, FakeEmbedder(64))
