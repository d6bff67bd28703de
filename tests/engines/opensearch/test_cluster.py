"""A node is killed, alone and as one of two: nothing committed is lost, and what an answer lacks is named."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from context_engine.core.models import Chunk, FetchRequest
from context_engine.errors import ContextEngineError, SourceError, SourceUnavailable, StoreLocked
from context_engine.testing import FixedClock
from tests.engines.opensearch.conftest import Store
from tests.engines.opensearch.test_faults import QUESTION, ask, error_of, found, rows, write
from tests.java_server import missing
from tests.opensearch_server import OpenSearchNode

pytestmark = pytest.mark.slow
NAMES = [f"d{number}" for number in range(20)]
EVERY = replace(QUESTION, top_k=60)


@pytest.fixture(scope="module")
def own_node() -> Iterator[OpenSearchNode]:
    if missing():
        pytest.skip(f"no OpenSearch here: {missing()} is not installed")
    with OpenSearchNode() as running:
        yield running


@pytest.fixture(scope="module")
def second(own_node: OpenSearchNode) -> Iterator[OpenSearchNode]:
    """A node of the same cluster that holds data only."""
    with OpenSearchNode(beside=own_node) as running:
        yield running


def test_a_node_killed_in_a_load_and_in_a_search_keeps_what_was_committed(own_node: OpenSearchNode) -> None:
    store = Store(own_node.url)
    write(store, "a")
    with pytest.raises(ContextEngineError), store.sink() as sink:
        for number in range(40):
            sink.put("notes", f"b{number}", "", "1", [Chunk(content=f"The approval limit of desk {number}.")])
        sink._flush()
        own_node.kill()
        assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceUnavailable)
        sink.commit()
    own_node.start()
    assert found(store) == {"a"}
    assert isinstance(error_of(lambda: write(store, "c")), StoreLocked), "the killed load holds the store for a while"
    store.clock = FixedClock(store.clock.now() + timedelta(seconds=121))
    write(store, "c")
    assert found(store) == {"a", "c"} and rows(store) == 4
    assert {chunk.document_id for chunk in store.source().fetch(FetchRequest(domain="NPA", document_ids=("a",)))} == {
        "a"
    }


def filled(url: str, replicas: int) -> Store:
    """Return a store of twenty documents, whose shards lie on both nodes."""
    store = Store(url)
    store.own |= {"replicas": replicas, "bulk_rows": 5}
    write(store, *NAMES)
    return store


def wait_for(store: Store, nodes: int, status: str) -> None:
    ask(store, "GET", f"_cluster/health?wait_for_nodes={nodes}&wait_for_status={status}&timeout=60s")


def searched_while(store: Store, action: Any) -> list[Any]:
    """Search again and again while something happens; return the answers, and errors in the place of others."""
    source, answers, ended = store.source(), list[Any](), threading.Event()

    def search() -> None:
        while not ended.is_set():
            try:
                answers.append(source.search(EVERY))
            except Exception as error:  # whatever it is, the test shall show it
                answers.append(error)

    searching = threading.Thread(target=search)
    searching.start()
    try:
        action()
    finally:
        ended.set()
        searching.join()
    return answers


def test_a_node_of_two_killed_in_a_load_and_in_searches_loses_nothing_and_comes_back(
    own_node: OpenSearchNode, second: OpenSearchNode
) -> None:
    copied, single = filled(own_node.url, 1), filled(own_node.url, 0)
    wait_for(copied, 2, "green")
    more = [f"e{number}" for number in range(20)]

    def load() -> None:
        with copied.sink() as sink:
            for name in more:
                sink.put("notes", name, "", "1", [Chunk(content=f"The approval limit of the desk. {name}")])
                if name == "e9":
                    second.kill()

    assert all(len(found(store)) == 10 for store in (copied, single))
    for answer in searched_while(copied, load):
        if isinstance(answer, Exception) and not isinstance(answer, SourceError):
            raise answer
        whole = {chunk.document_id for chunk in answer.chunks} if not isinstance(answer, SourceError) else set()
        assert whole in ({*NAMES}, {*NAMES, *more}) or _says_so(answer), "whole commits, or what is missing"
    after = copied.source().search(EVERY)
    assert {chunk.document_id for chunk in after.chunks} == {*NAMES, *more} and not after.failures
    part = single.source().search(EVERY)
    assert 0 < len(part.chunks) < 20 and _says_so(part), "the shards of one node answer"
    assert isinstance(error_of(lambda: list(single.source().list_chunks())), SourceUnavailable)
    with pytest.raises(SourceUnavailable) as caught, single.sink() as sink:
        sink.delete("notes", "d1", "")
    assert caught.value.retryable and "missing" in str(caught.value)
    second.start()
    wait_for(copied, 2, "green")
    single.clock = FixedClock(single.clock.now() + timedelta(seconds=121))
    write(single, *more)
    for store in (copied, single):
        answer = store.source().search(EVERY)
        assert {chunk.document_id for chunk in answer.chunks} == {*NAMES, *more} and not answer.failures
        assert rows(store) == 80, "a record and a chunk of each document"


def _says_so(answer: Any) -> bool:
    """Return whether an answer, or an error in its place, says that a part is missing and may be asked for again."""
    failures = [answer] if isinstance(answer, SourceError) else answer.failures
    return bool(failures) and all(failure.retryable and isinstance(failure, SourceError) for failure in failures)
