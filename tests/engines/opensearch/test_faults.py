"""Failures of a node are errors of the right kind, and leave whole documents."""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from context_engine.adapters.sources.opensearch import search, state
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
    RepartitionRequired,
    SourceNotFound,
    SourceUnavailable,
    StoreCorrupt,
    StoreError,
    StoreLocked,
    StoreVersionMismatch,
)
from context_engine.testing import FakeEmbedder, FixedClock

pytestmark = pytest.mark.slow
QUESTION = SourceQuery(text="approval limit", domain="NPA", top_k=10, timeout_s=20.0)


def write(store: Any, *names: str, text: str = "The approval limit is five million.") -> None:
    with store.sink() as sink:
        for name in names:
            sink.put("notes", name, "", "1", [Chunk(content=f"{text} {name}")])


def found(store: Any) -> set[str | None]:
    return {chunk.document_id for chunk in store.source().search(QUESTION).chunks}


def ask(store: Any, method: str, path: str, body: Any = None) -> Any:
    data = None if body is None else json.dumps(body).encode()
    url = f"{store.connection.base_url}/{path.replace('PREFIX', store.own['index_prefix'])}"
    call = urllib.request.Request(url, data, {"Content-Type": "application/json"}, method=method)
    with urllib.request.urlopen(call) as answer:
        return json.load(answer)


def indices(store: Any) -> set[str]:
    return {name for name in ask(store, "GET", "PREFIX-*/_alias") if not name.endswith("-state")}


def rows(store: Any) -> int:
    """Return the number of rows on the server, visible or not."""
    ask(store, "POST", "PREFIX-*/_refresh")
    return int(ask(store, "GET", f"{','.join(indices(store))}/_count")["count"])


def error_of(action: Callable[[], object]) -> Any:
    with pytest.raises(ContextEngineError) as caught:
        action()
    return caught.value


def test_a_node_that_is_down_may_be_asked_again(store: Any) -> None:
    store.connection = store.connection.model_copy(update={"base_url": "http://127.0.0.1:1"})
    error = error_of(lambda: store.source().search(QUESTION))
    assert isinstance(error, SourceUnavailable) and error.retryable and error.source_id == "notes"


def test_a_source_without_documents_is_not_found(store: Any) -> None:
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceNotFound)
    write(store, "a")
    assert isinstance(error_of(lambda: store.source(store.spec("other")).search(QUESTION)), SourceNotFound)


def test_a_lost_index_is_said_and_written_again(store: Any) -> None:
    write(store, "a")
    (index,) = indices(store)
    ask(store, "DELETE", index)
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceNotFound)
    assert isinstance(error_of(lambda: write(store, "a")), StoreCorrupt)
    store.repair = True
    write(store, "a")
    assert found(store) == {"a"}


def test_an_index_that_is_deleted_in_a_load_is_not_made_again(store: Any) -> None:
    write(store, "a")
    with pytest.raises(ContextEngineError) as caught, store.sink() as sink:
        sink.put("notes", "b", "", "1", [Chunk(content="The approval limit of the desk.")])
        for index in indices(store):
            ask(store, "DELETE", index)
        sink.commit()
    assert isinstance(caught.value, SourceNotFound) and not indices(store), "no index without our mapping"
    store.repair = True
    write(store, "a", "b")
    assert found(store) == {"a", "b"}


def test_of_two_who_change_what_was_learnt_one_is_refused(vector_store: Any) -> None:
    write(vector_store, "a")
    first, second = vector_store.source().store, vector_store.source().store
    with pytest.raises(StoreLocked), first._writing_adapters():
        plan = second.calibration_plan("NPA", ["notes"], anew=True)
        second.keep_calibrations("NPA", plan, [])


def test_vectors_are_kept_when_texts_are_analysed_again_or_documents_move(vector_store: Any) -> None:
    write(vector_store, "a")
    before = vector_store.source().search(QUESTION).chunks
    fields = ask(vector_store, "GET", "PREFIX-state/_doc/state")["_source"]
    ask(vector_store, "PUT", "PREFIX-state/_doc/state", {**fields, "words_version": "old"})
    embedder, vector_store.embedder = vector_store.embedder, None
    write(vector_store)
    with vector_store.sink(rules_of=lambda _id: "board"):
        pass
    vector_store.embedder = embedder
    assert vector_store.source(rules_of=lambda _id: "board").search(QUESTION).chunks == before


def test_what_was_deleted_is_scrubbed_at_once(store: Any) -> None:
    write(store, "a", "b")
    with store.sink() as sink:
        sink.delete("notes", "b", "")
        assert "snapshots" in sink.scrub()
        assert rows(store) == 2
    assert found(store) == {"a"}


def test_a_second_writer_is_refused_until_the_first_is_silent_for_too_long(store: Any) -> None:
    with pytest.raises(StoreError), store.sink() as first:
        assert isinstance(error_of(lambda: write(store, "a")), StoreLocked)
        store.clock = FixedClock(store.clock.now() + timedelta(seconds=121))
        write(store, "b")
        first.put("notes", "c", "", "1", [Chunk(content="The approval limit of the desk.")])
        assert isinstance(error_of(first.commit), StoreLocked)
    assert found(store) == {"b"}


def test_what_was_not_committed_is_removed(store: Any) -> None:
    write(store, "a", "b")
    before = rows(store)
    with pytest.raises(StoreError), store.sink() as sink:
        sink.put("notes", "a", "", "2", [Chunk(content="The approval limit of the board.")])
        sink.delete("notes", "b", "")
        sink.put("notes", "c", "", "1", [Chunk(content="The approval limit of the desk.")])
        sink._flush()
        ask(store, "POST", "PREFIX-*/_refresh")
        assert found(store) == {"a", "b"}, "nothing is visible before the commit"
        raise StoreError("given up")
    assert found(store) == {"a", "b"} and rows(store) == before
    write(store, "c")
    assert found(store) == {"a", "b", "c"}


def test_what_is_deleted_is_gone_from_the_server(store: Any) -> None:
    write(store, "a", "b")
    with store.sink() as sink:
        sink.put("notes", "a", "", "2", [Chunk(content="The approval limit is nine million.")])
        sink.delete("notes", "b", "")
    assert rows(store) == 2, "the record and the chunk of the one document"
    assert [chunk.document_id for chunk in store.source().list_chunks()] == ["a"]


def test_a_document_written_twice_in_a_run_is_there_once(store: Any) -> None:
    with store.sink() as sink:
        for version in "123":
            sink.put("notes", "a", "", version, [Chunk(content=f"The approval limit, version {version}.")])
    (chunk,) = store.source().search(QUESTION).chunks
    assert chunk.content.endswith("version 3.") and rows(store) == 2


def test_a_full_disk_is_said_and_searches_go_on(store: Any) -> None:
    write(store, "a")
    (index,) = indices(store)
    ask(store, "PUT", f"{index}/_settings", {"index.blocks.read_only_allow_delete": True})
    error = error_of(lambda: write(store, "b"))
    assert isinstance(error, SourceUnavailable) and "disk" in str(error) and not error.retryable
    assert found(store) == {"a"}
    ask(store, "PUT", f"{index}/_settings", {"index.blocks.read_only_allow_delete": None})
    write(store, "b")
    assert found(store) == {"a", "b"}


def test_indices_of_a_later_version_are_refused(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    write(store, "a")
    monkeypatch.setattr(state, "LAYOUT_VERSION", 0)
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceUnavailable)
    assert isinstance(error_of(lambda: write(store, "b")), StoreVersionMismatch)


def test_texts_of_another_analysis_are_analysed_again_without_a_gap(store: Any) -> None:
    write(store, "a")
    fields = ask(store, "GET", "PREFIX-state/_doc/state")["_source"]
    ask(store, "PUT", "PREFIX-state/_doc/state", {**fields, "words_version": "old"})
    before = indices(store)
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceUnavailable)
    write(store)
    assert found(store) == {"a"} and not before & indices(store)


def test_documents_move_with_their_access_rules(store: Any) -> None:
    with store.sink(store.spec(), store.spec("other")) as sink:
        for source_id in ("notes", "other"):
            sink.put(source_id, "a", "", "1", [Chunk(content="The approval limit.", chunk_id=source_id)])

    def rules_of(source_id: str) -> str:
        return "board" if source_id == "notes" else ""

    closed = store.source(rules_of=rules_of)
    assert isinstance(error_of(lambda: closed.search(QUESTION)), RepartitionRequired)
    with store.sink(store.spec(), store.spec("other"), rules_of=rules_of):
        pass
    assert [chunk.chunk_id for chunk in closed.search(QUESTION).chunks] == ["notes"]
    assert [chunk.chunk_id for chunk in store.source(store.spec("other")).search(QUESTION).chunks] == ["other"]
    assert len(indices(store)) == 2


def test_a_rebuild_leaves_a_source_that_is_not_written_in_its_class(vector_store: Any) -> None:
    def rules_of(source_id: str) -> str:
        return "board" if source_id == "other" else ""

    embedder, vector_store.embedder = vector_store.embedder, None
    with vector_store.sink(vector_store.spec(), vector_store.spec("other"), rules_of=rules_of) as sink:
        for source_id in ("notes", "other"):
            sink.put(source_id, "a", "", "1", [Chunk(content="The approval limit.", chunk_id=source_id)])
    vector_store.embedder = embedder
    write(vector_store, "b")  # whose sink knows the rules of "notes" alone
    other = vector_store.source(vector_store.spec("other"), rules_of)
    assert [chunk.chunk_id for chunk in other.search(QUESTION).chunks] == ["other"]
    assert other.search(replace(QUESTION, access=AccessScope())).chunks == []


def test_vectors_of_another_model_are_refused_until_they_are_made_again(vector_store: Any) -> None:
    write(vector_store, "a")
    vector_store.embedder = FakeEmbedder(32)
    assert isinstance(error_of(lambda: vector_store.source().search(QUESTION)), SourceUnavailable)
    assert isinstance(error_of(lambda: write(vector_store, "b")), StoreVersionMismatch)
    vector_store.repair = True
    write(vector_store, "b")
    assert found(vector_store) == {"a", "b"}


def test_a_store_without_vectors_gets_them(vector_store: Any) -> None:
    embedder, vector_store.embedder = vector_store.embedder, None
    write(vector_store, "a")
    vector_store.embedder = embedder
    answer = vector_store.source().search(QUESTION)
    assert [notice.code for notice in answer.notices] == [NoticeCode.NO_VECTORS] and answer.chunks
    write(vector_store, "b")
    assert all(len(chunk.scores) == 3 for chunk in vector_store.source().search(QUESTION).chunks)


def test_documents_written_without_the_model_are_embedded_by_the_next_run(vector_store: Any) -> None:
    embedder = vector_store.embedder
    write(vector_store, "a")
    vector_store.embedder = None
    write(vector_store, "b")
    vector_store.embedder = embedder
    write(vector_store)
    assert all(len(chunk.scores) == 3 for chunk in vector_store.source().search(QUESTION).chunks)


def test_the_graph_is_searched_within_the_filter_and_watched(
    vector_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with vector_store.sink() as sink:
        for number in range(60):
            chunk = Chunk(content=f"The approval limit of desk {number}.", metadata={"desk": number})
            sink.put("notes", f"d{number}", "", "1", [chunk])
    query = SourceQuery(
        text="approval limit", domain="NPA", top_k=10, timeout_s=20.0, filters=Condition("desk", FilterOp.LT, 3)
    )
    exact = vector_store.source().search(query).chunks
    monkeypatch.setattr(search, "APPROXIMATE_FROM", 1)
    source = vector_store.source()
    assert source.search(query).chunks == exact and len(exact) == 3
    assert source.store.watched_recall() == 1.0


def test_a_low_recall_of_the_graph_is_said_and_the_graph_left(
    vector_store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(vector_store, "a")
    monkeypatch.setattr(search, "APPROXIMATE_FROM", 1)
    source = vector_store.source()
    source.store.watch.next_way(1)
    for _ in range(LEAST_MEASURED):
        source.store.watch.add(1, 0.5)
    answer = source.search(QUESTION)
    assert [notice.code for notice in answer.notices] == [NoticeCode.ANN_RECALL_LOW] and answer.chunks
    assert source.examine(ExaminationRequest(domain="NPA")).details["ann_recall"] == 0.5


def test_long_values_are_filtered(store: Any) -> None:
    long = "x" * 40_000
    with store.sink() as sink:
        for name, value in (("a", long), ("b", long + "y")):
            sink.put(
                "notes", name, "", "1", [Chunk(content="The approval limit.", metadata={"note": value}, chunk_id=name)]
            )
    query = SourceQuery(
        text="approval limit", domain="NPA", top_k=10, timeout_s=20.0, filters=Condition("note", FilterOp.EQ, long)
    )
    answer = store.source().search(query)
    assert [chunk.document_id for chunk in answer.chunks] == ["a"] and "note" in (answer.filter_fields or ())


def test_the_examination_names_the_server(vector_store: Any) -> None:
    write(vector_store, "a", "b")
    report = vector_store.source().examine(ExaminationRequest(domain="NPA", query="approval limit"))
    assert report.ok and report.documents == 2 and report.records == 2
    assert report.kind == f"OpenSearch {report.version}" and report.search_method == "terms, k-NN"
