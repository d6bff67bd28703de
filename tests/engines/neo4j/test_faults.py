"""Failures of a server are errors of the right kind, and leave whole documents."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.neo4j import search
from context_engine.adapters.sources.stores.recall import LEAST_MEASURED
from context_engine.core.models import (
    AccessScope,
    Chunk,
    Condition,
    ExaminationRequest,
    FilterOp,
    NoticeCode,
    SourceQuery,
)
from context_engine.errors import (
    ContextEngineError,
    EmbedderError,
    RepartitionRequired,
    SourceAuthError,
    SourceNotFound,
    SourceTimeout,
    SourceUnavailable,
    StoreError,
    StoreLocked,
    StoreVersionMismatch,
)
from context_engine.testing import FakeEmbedder, FixedClock
from tests.certificate import write_certificate
from tests.engines.neo4j.conftest import Store
from tests.java_server import missing
from tests.neo4j_server import Neo4jServer

pytestmark = pytest.mark.slow
QUESTION = SourceQuery(text="approval limit", domain="NPA", top_k=10, timeout_s=60.0)


def write(store: Store, *names: str, text: str = "The approval limit is five million.") -> None:
    with store.sink() as sink:
        for name in names:
            sink.put("notes", name, "", "1", [Chunk(content=f"{text} {name}")])


def found(store: Store) -> set[str | None]:
    return {chunk.document_id for chunk in store.source().search(QUESTION).chunks}


def nodes(store: Store) -> int:
    """Return the number of nodes of documents, chunks and vectors, visible or not."""
    return int(store.ask("MATCH (n:bank) RETURN count(n)")[0])


def error_of(action: Callable[[], object]) -> Any:
    with pytest.raises(ContextEngineError) as caught:
        action()
    return caught.value


def test_a_server_that_is_down_may_be_asked_again(store: Store) -> None:
    store.connection = store.connection.model_copy(update={"base_url": "bolt://127.0.0.1:1"})
    error = error_of(lambda: store.source().search(QUESTION))
    assert isinstance(error, SourceUnavailable) and error.retryable and error.source_id == "notes"


def test_a_wrong_password_is_refused_and_a_new_one_is_read(store: Store) -> None:
    write(store, "a")
    right = store.connection
    store.connection = right.model_validate({"base_url": right.base_url, "user": "neo4j", "api_key": "another"})
    source = store.source()
    error = error_of(lambda: source.search(QUESTION))
    assert isinstance(error, SourceAuthError) and not error.retryable and "another" not in str(error)
    store.connection = right
    assert source.search(QUESTION).chunks


def test_the_certificate_of_the_server_is_checked(server: Neo4jServer, store: Store, tmp_path: Path) -> None:
    write(store, "a")
    plain, other = store.connection, tmp_path / "other.pem"
    write_certificate(other, tmp_path / "other.key")

    def with_bundle(bundle: Path | None, scheme: str = "bolt+s", host: str = "127.0.0.1") -> None:
        url = f"{scheme}://{host}:{server.port}"
        store.connection = plain.model_copy(update={"base_url": url, "ca_bundle": bundle})

    for scheme in ("bolt+s", "bolt", "neo4j+s"):
        with_bundle(server.certificate, scheme)
        assert found(store) == {"a"}
    for bundle, host in ((other, "127.0.0.1"), (None, "127.0.0.1"), (server.certificate, "localhost")):
        with_bundle(bundle, host=host)
        error = error_of(lambda: store.source().search(QUESTION))
        assert isinstance(error, SourceUnavailable) and not error.retryable
        assert "certificate" in str(error) and "ca_bundle" in str(error), (bundle, host)


def test_a_database_that_is_not_there_is_not_found(store: Store) -> None:
    store.own["database"] = "nowhere"
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceNotFound)


def test_a_query_that_takes_too_long_is_ended(store: Store) -> None:
    write(store, "a")
    server = store.source().store._server
    with pytest.raises(SourceTimeout), server.reading(0.2) as transaction:
        transaction.rows("UNWIND range(1, 1000000000) AS number RETURN sum(number)")
    server.close()


def test_a_source_without_documents_is_not_found(store: Store) -> None:
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceNotFound)
    write(store, "a")
    assert isinstance(error_of(lambda: store.source(store.spec("other")).search(QUESTION)), SourceNotFound)


def test_a_lost_index_is_said_and_made_again(store: Store) -> None:
    write(store, "a")
    store.ask("DROP INDEX bank_1_chunk_fulltext")
    error = error_of(lambda: store.source().search(QUESTION))
    assert isinstance(error, SourceUnavailable) and not error.retryable
    write(store)
    assert found(store) == {"a"}


def test_a_second_writer_is_refused_until_the_first_is_silent_for_too_long(store: Store) -> None:
    with pytest.raises(StoreError), store.sink() as first:
        assert isinstance(error_of(lambda: write(store, "a")), StoreLocked)
        store.clock = FixedClock(store.clock.now() + timedelta(seconds=121))
        write(store, "b")
        first.put("notes", "c", "", "1", [Chunk(content="The approval limit of the desk.")])
        assert isinstance(error_of(first.commit), StoreLocked)
    assert found(store) == {"b"}


def test_what_was_not_committed_is_removed(store: Store) -> None:
    write(store, "a", "b")
    before = nodes(store)
    with pytest.raises(StoreError), store.sink() as sink:
        sink.put("notes", "a", "", "2", [Chunk(content="The approval limit of the board.")])
        sink.delete("notes", "b", "")
        sink.put("notes", "c", "", "1", [Chunk(content="The approval limit of the desk.")])
        sink._flush()  # type: ignore[attr-defined]
        assert found(store) == {"a", "b"}, "nothing is visible before the commit"
        raise StoreError("given up")
    assert found(store) == {"a", "b"} and nodes(store) == before
    write(store, "c")
    assert found(store) == {"a", "b", "c"}


def test_what_is_deleted_is_gone_from_the_server(store: Store) -> None:
    write(store, "a", "b")
    secret = Chunk(content="The approval limit is nine million.", metadata={"desk": "Falcon"})
    with store.sink() as sink:
        sink.put("notes", "c", "", "1", [secret])
        sink.put("notes", "a", "", "2", [Chunk(content="The approval limit is eight million.")])
        sink.delete("notes", "b", "")
    assert nodes(store) == 4, "two documents with a chunk each"
    with store.sink() as sink:
        sink.delete("notes", "c", "")
        assert "transaction logs" in sink.scrub()  # type: ignore[attr-defined]
    assert [chunk.document_id for chunk in store.source().list_chunks()] == ["a"] and nodes(store) == 2
    assert "Falcon" not in str(store.ask(f"{store.nodes} RETURN properties(n)", name="bank"))
    assert store.ask("MATCH (t:bank_term) WHERE t.term = 'nine' RETURN t.texts") == []


def test_a_document_written_twice_in_a_run_is_there_once(store: Store) -> None:
    with store.sink() as sink:
        for version in "123":
            sink.put("notes", "a", "", version, [Chunk(content=f"The approval limit, version {version}.")])
    (chunk,) = store.source().search(QUESTION).chunks
    assert chunk.content.endswith("version 3.") and nodes(store) == 2


def test_rules_that_change_move_the_documents(store: Store) -> None:
    write(store, "a")

    def rules_of(source_id: str) -> str:
        return "desk" if source_id == "notes" else ""

    guarded = store.source(store.spec(), rules_of)
    assert isinstance(error_of(lambda: guarded.search(QUESTION)), RepartitionRequired)
    with store.sink(rules_of=rules_of):
        pass
    assert [chunk.document_id for chunk in guarded.search(QUESTION).chunks] == ["a"]
    assert guarded.search(replace(QUESTION, access=AccessScope())).chunks == []


def test_vectors_of_another_model_are_refused_until_they_are_made_again(vector_store: Store) -> None:
    write(vector_store, "a")
    vector_store.embedder = FakeEmbedder(32)
    assert isinstance(error_of(lambda: vector_store.source().search(QUESTION)), SourceUnavailable)
    assert isinstance(error_of(lambda: write(vector_store, "b")), StoreVersionMismatch)
    vector_store.repair = True
    write(vector_store, "b")
    assert found(vector_store) == {"a", "b"}


def test_a_store_without_vectors_gets_them(vector_store: Store) -> None:
    embedder, vector_store.embedder = vector_store.embedder, None
    write(vector_store, "a")
    vector_store.embedder = embedder
    answer = vector_store.source().search(QUESTION)
    assert [notice.code for notice in answer.notices] == [NoticeCode.NO_VECTORS] and answer.chunks
    write(vector_store, "b")
    assert all(len(chunk.scores) == 3 for chunk in vector_store.source().search(QUESTION).chunks)


def test_the_index_of_vectors_is_searched_and_watched(vector_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    with vector_store.sink() as sink:
        for number in range(60):
            chunk = Chunk(content=f"The approval limit of desk {number}.", metadata={"desk": number})
            sink.put("notes", f"d{number}", "", "1", [chunk])
    narrow = replace(QUESTION, filters=Condition("desk", FilterOp.LT, 3))
    compared = [vector_store.source().search(query).chunks for query in (QUESTION, narrow)]
    monkeypatch.setattr(search, "APPROXIMATE_FROM", 1)
    source = vector_store.source()
    assert [source.search(query).chunks for query in (QUESTION, narrow)] == compared and len(compared[1]) == 3
    assert source.store.watched_recall() in (None, 1.0)
    source.store.watch.next_way(1)
    for _ in range(LEAST_MEASURED):
        source.store.watch.add(1, 0.0)
    answer = source.search(QUESTION)
    assert [notice.code for notice in answer.notices] == [NoticeCode.ANN_RECALL_LOW] and answer.chunks == compared[0]
    assert source.examine(ExaminationRequest(domain="NPA")).details["ann_recall"] < 0.95


class Unwilling(FakeEmbedder):
    """An embedder of questions alone."""

    def embed_documents(self, texts: Sequence[str]) -> Any:
        raise EmbedderError("no document is to be embedded")


def test_vectors_are_kept_when_texts_are_analysed_again(vector_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    write(vector_store, "a")
    before = vector_store.source().search(QUESTION).chunks
    vector_store.embedder = Unwilling(64)
    for module in ("sink", "store"):
        monkeypatch.setattr(f"context_engine.adapters.sources.neo4j.{module}.WORDS_VERSION", "of a later version")
    assert isinstance(error_of(lambda: vector_store.source().search(QUESTION)), SourceUnavailable)
    write(vector_store)
    assert vector_store.source().search(QUESTION).chunks == before and len(before[0].scores) == 3


def test_a_long_chunk_is_found_by_each_of_its_vectors(vector_store: Store) -> None:
    text = f"{'filler words of the rule ' * 80} zebra crossing {'more of it ' * 80}"
    with vector_store.sink() as sink:
        sink.put("notes", "long", "", "1", [Chunk(content=text)])
    assert vector_store.ask("MATCH (p:bank:Passage) RETURN count(p)")[0] > 0
    (chunk,) = vector_store.source().search(replace(QUESTION, text="zebra crossing")).chunks
    assert chunk.document_id == "long" and len(chunk.scores) == 3


def test_people_find_the_graph(store: Store) -> None:
    texts = ("A breach is reported under section 2.1.", "The board hears of it.")
    chunks = [
        Chunk(content=text, section=f"{place}.1", chunk_id=f"c{place}", metadata={"project_id": "npa-7"})
        for place, text in enumerate(texts, 1)
    ]
    with store.sink() as sink:
        sink.put("notes", "rules", "", "1", chunks)
    pairs = "MATCH (a:bank:Chunk)-[r]->(b:Chunk) RETURN type(r) + ' ' + a.chunk_id + ' ' + b.chunk_id ORDER BY type(r)"
    assert store.ask(pairs) == ["CITES c1 c2", "NEXT_CHUNK c1 c2"]
    of_project = (
        "MATCH (c:bank:Chunk)-[:BELONGS_TO]->(:Document)-[:BELONGS_TO]->(p:Project {id: 'npa-7'}) RETURN c.chunk_id"
    )
    assert sorted(store.ask(of_project)) == ["c1", "c2"]


def test_the_examination_names_the_server(vector_store: Store) -> None:
    write(vector_store, "a", "b")
    report = vector_store.source().examine(ExaminationRequest(domain="NPA", query="approval limit"))
    assert report.ok and report.documents == 2 and report.records == 2
    assert report.kind == f"Neo4j {report.version} community" and report.search_method == "full text, vectors"


@pytest.fixture
def own_server() -> Iterator[Neo4jServer]:
    if missing():
        pytest.skip(f"no Neo4j here: {missing()} is not installed")
    with Neo4jServer() as running:
        yield running


def test_a_server_killed_in_a_load_and_in_a_search_keeps_what_was_committed(own_server: Neo4jServer) -> None:
    store = Store(own_server.url)
    write(store, "a")
    source = store.source()
    with pytest.raises(ContextEngineError), store.sink() as sink:
        for number in range(40):
            sink.put("notes", f"b{number}", "", "1", [Chunk(content=f"The approval limit of desk {number}.")])
        sink._flush()  # type: ignore[attr-defined]
        with pytest.raises(SourceUnavailable), source.store._server.reading(60.0) as transaction:
            own_server.kill()
            transaction.rows("RETURN 1")
        sink.commit()
    assert isinstance(error_of(lambda: source.search(QUESTION)), SourceUnavailable)
    own_server.start()
    assert {chunk.document_id for chunk in source.search(QUESTION).chunks} == {"a"}
    assert isinstance(error_of(lambda: write(store, "c")), StoreLocked), "the killed load holds the store for a while"
    store.clock = FixedClock(store.clock.now() + timedelta(seconds=121))
    write(store, "c")
    assert found(store) == {"a", "c"} and nodes(store) == 4
