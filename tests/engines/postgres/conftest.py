"""A schema of its own for every test, in a database of a server that this test run starts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from context_engine.testing import FakeEmbedder
from tests.engines.conftest import server_of
from tests.postgresql_server import PostgresqlServer, programs, programs_with
from tests.postgresql_store import Store


@pytest.fixture(scope="session")
def plain_server() -> Iterator[Any]:
    yield from server_of(programs(), "no PostgreSQL here: apt-get install postgresql")


@pytest.fixture(scope="session")
def ranking_server() -> Iterator[Any]:
    """A server with the extension for BM25 in the database `postgres`."""
    found = programs_with("pg_textsearch")
    if found is None:
        pytest.skip("no PostgreSQL with pg_textsearch here: name its folder of programs in POSTGRESQL_PROGRAMS")
    with PostgresqlServer(folder=found, libraries="pg_textsearch") as server:
        server.execute("CREATE EXTENSION pg_textsearch")
        yield server


@pytest.fixture
def ranking_store(ranking_server: Any) -> Store:
    return Store(ranking_server.dsn("postgres"))


@pytest.fixture
def store(plain_server: Any) -> Store:
    return Store(plain_server.dsn("postgres"))


@pytest.fixture
def vector_store(vector_server: Any) -> Store:
    """A store whose embedder makes vectors of words."""
    return Store(vector_server.dsn("postgres"), FakeEmbedder(64))
