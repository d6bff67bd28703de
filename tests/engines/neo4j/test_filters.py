"""Filters by the index of words and by the nodes' own numbers: the same as testing every chunk."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from context_engine.adapters.sources.neo4j import conditions
from context_engine.core.models import SourceQuery
from context_engine.core.policy.filters import matches, own_fields, parse_filter
from context_engine.testing import FakeEmbedder
from tests.engines.neo4j.conftest import Store
from tests.engines.postgres.test_filters import CHUNKS
from tests.neo4j_server import Neo4jServer

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def filled(server: Neo4jServer) -> Iterator[Any]:
    store = Store(server.url, FakeEmbedder(64)).empty()
    with store.sink() as sink:
        sink.put("notes", "doc", "", "1", CHUNKS)
    yield store.source()


@pytest.mark.parametrize("question", ["limit", "zebra"])  # "zebra" stands nowhere: it is compared by vectors alone
@pytest.mark.parametrize(
    "written",
    ["year in 1961,1962,1963", {"or": [{"year": 1961}, {"not": {"position_lt": 37}}]}, "tags != a", "name = nothing"],
)
@pytest.mark.parametrize("most", [200, 0])
def test_a_filter_finds_what_testing_every_chunk_finds(
    filled: Any, monkeypatch: pytest.MonkeyPatch, question: str, written: Any, most: int
) -> None:
    monkeypatch.setattr(conditions, "_MOST_NUMBERS", most)
    wanted = parse_filter(written)
    answer = filled.search(SourceQuery(text=question, domain="NPA", top_k=100, timeout_s=60.0, filters=wanted))
    expected = {chunk.chunk_id for chunk in CHUNKS if matches(wanted, own_fields(chunk))}
    assert {chunk.chunk_id for chunk in answer.chunks} == expected
