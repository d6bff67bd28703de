"""An empty store for every test, in a server that this test run starts."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Self

import pytest
from neo4j import GraphDatabase

from context_engine.adapters.sources.adapter import SinkOptions, SourceContext
from context_engine.adapters.sources.neo4j import open_neo4j
from context_engine.core.models import Settings, SourceSpec
from context_engine.core.protocols import Embedder, Sink
from context_engine.settings.connections import Connection
from context_engine.testing import FakeEmbedder, FixedClock
from tests.neo4j_server import PASSWORD, Neo4jServer


class Store:
    """A store in a server, opened as the adapter opens it."""

    def __init__(self, url: str, embedder: Embedder | None = None, *, name: str = "bank") -> None:
        self.embedder, self.settings, self.repair, self.clock = embedder, Settings(), False, FixedClock()
        self.own: dict[str, Any] = {"store_name": name}
        self.connection = Connection(base_url=url, user="neo4j", api_key=PASSWORD, max_connections=16)

    data_dir = Path()
    """A folder that may be a trial's."""

    def spec(self, source_id: str = "notes", **fields: Any) -> SourceSpec:
        return SourceSpec(
            **{"type": "bank_sop", **fields}, id=source_id, adapter="neo4j", connection="graph", settings=self.own
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
        assert open_neo4j.open_sink is not None
        return open_neo4j.open_sink(
            specs or [self.spec()], self.context(rules_of), SinkOptions(dry_run=dry_run, repair=self.repair)
        )

    def ask(self, statement: str, **values: Any) -> list[Any]:
        """Return the first value of each row of a statement's answer."""
        with GraphDatabase.driver(self.connection.base_url, auth=("neo4j", PASSWORD)) as driver:
            return [record[0] for record in driver.execute_query(statement, values).records]

    def empty(self) -> Self:
        """Delete the store's nodes; its indexes stay, so that the server need not plan its queries again."""
        self.ask(f"{self.nodes} DETACH DELETE n", name=self.own["store_name"])
        return self

    nodes = "MATCH (n) WHERE n.store = $name OR any(label IN labels(n) WHERE label STARTS WITH $name)"
    """All nodes `n` of the store `$name`, in Cypher."""

    def source(self, spec: SourceSpec | None = None, rules_of: Callable[[str], str] = lambda _id: "") -> Any:
        return open_neo4j(spec or self.spec(), self.context(rules_of))


@pytest.fixture
def store(server: Neo4jServer) -> Store:
    return Store(server.url).empty()


@pytest.fixture
def vector_store(server: Neo4jServer) -> Store:
    """A store whose embedder makes vectors of words."""
    return Store(server.url, FakeEmbedder(64)).empty()
