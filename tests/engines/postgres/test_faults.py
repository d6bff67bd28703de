"""Failures of a server are errors of the right kind, without a password, and leave whole documents."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest
from pydantic import SecretStr

from context_engine.core.models import AccessScope, Chunk, Classification, ExaminationRequest, NoticeCode, SourceQuery
from context_engine.errors import (
    ContextEngineError,
    SourceAuthError,
    SourceError,
    SourceNotFound,
    SourceUnavailable,
    StoreError,
    StoreLocked,
    StoreVersionMismatch,
)
from context_engine.testing import FakeEmbedder
from tests.postgresql_store import Store

pytestmark = pytest.mark.slow
QUESTION = SourceQuery(text="approval limit", domain="NPA", top_k=10, timeout_s=5.0)


def write(store: Any, *names: str, text: str = "The approval limit is five million.") -> None:
    with store.sink() as sink:
        for name in names:
            sink.put("notes", name, "", "1", [Chunk(content=f"{text} {name}")])


def found(store: Any) -> set[str | None]:
    return {chunk.document_id for chunk in store.source().search(QUESTION).chunks}


def run(store: Any, statement: str) -> None:
    with psycopg.connect(store.dsn, autocommit=True) as connection:
        connection.execute(f"SET search_path = {store.schema}, public; {statement}".encode())


def terminate(store: Any) -> None:
    """End all other connections of the store's user, as an operator does."""
    run(
        store,
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
        " WHERE application_name = 'context-engine' AND pid <> pg_backend_pid()",
    )


def error_of(action: Callable[[], object]) -> Any:
    with pytest.raises(ContextEngineError) as caught:
        action()
    return caught.value


def test_a_wrong_password_is_not_shown(store: Any, caplog: pytest.LogCaptureFixture) -> None:
    write(store, "a")
    wrong = SecretStr("wrong-password-of-nobody-1")
    store.connection = store.connection.model_copy(update={"api_key": wrong})
    error = error_of(lambda: store.source().search(QUESTION))
    assert isinstance(error, SourceAuthError) and not error.retryable and error.source_id == "notes"
    assert "wrong-password" not in f"{error} {error.__cause__} {caplog.text}"


def test_a_server_that_is_down_may_be_asked_again(store: Any) -> None:
    store.connection = store.connection.model_copy(update={"base_url": "postgresql://127.0.0.1:1/postgres"})
    error = error_of(lambda: store.source().search(QUESTION))
    assert isinstance(error, SourceUnavailable) and error.retryable
    assert "127.0.0.1" not in str(error)


def test_a_database_that_is_not_there_is_said(store: Any) -> None:
    url = store.connection.base_url.replace("/postgres", "/nowhere")
    store.connection = store.connection.model_copy(update={"base_url": url})
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceError)


def test_a_source_without_documents_is_not_found(store: Any) -> None:
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceNotFound)
    write(store, "a")
    other = store.source(store.spec("other"))
    assert isinstance(error_of(lambda: other.search(QUESTION)), SourceNotFound)


def test_a_second_writer_is_refused(store: Any) -> None:
    with store.sink():
        assert isinstance(error_of(lambda: write(store, "a")), StoreLocked)
    write(store, "a")


def test_a_search_goes_on_after_its_idle_connection_was_ended(store: Any) -> None:
    write(store, "a")
    source = store.source()
    assert source.search(QUESTION).chunks
    terminate(store)
    assert source.search(QUESTION).chunks


def test_a_connection_that_ends_in_a_search_is_an_error_to_try_again(store: Any) -> None:
    write(store, "a")
    source = store.source()
    with psycopg.connect(store.dsn) as connection:
        connection.execute(f"LOCK TABLE {store.schema}.words IN ACCESS EXCLUSIVE MODE".encode())
        errors: list[Any] = []
        search = threading.Thread(target=lambda: errors.append(error_of(lambda: source.search(QUESTION))))
        search.start()
        until = time.monotonic() + 4
        while not waits(store) and time.monotonic() < until:
            time.sleep(0.02)
        terminate(store)
        search.join()
    assert isinstance(errors[0], SourceUnavailable) and errors[0].retryable
    assert source.search(QUESTION).chunks


def waits(store: Any) -> bool:
    with psycopg.connect(store.dsn) as connection:
        row = connection.execute(
            "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'context-engine'"
            " AND wait_event_type = 'Lock'"
        ).fetchone()
    return bool(row and row[0])


def test_a_load_that_is_ended_leaves_what_was_committed(store: Any) -> None:
    write(store, "a")
    with pytest.raises(SourceUnavailable), store.sink() as sink:
        for number in range(50):
            sink.put("notes", f"b{number}", "", "1", [Chunk(content=f"The approval limit of desk {number}.")])
        assert found(store) == {"a"}, "nothing is visible before the commit"
        terminate(store)
        sink.put("notes", "c", "", "1", [Chunk(content="The approval limit of the board.")])
    assert found(store) == {"a"}
    write(store, "c")
    assert found(store) == {"a", "c"}


def test_nothing_is_committed_after_a_failed_statement(store: Any) -> None:
    write(store, "a")
    with pytest.raises(ContextEngineError), store.sink() as sink:
        run(store, "ALTER TABLE chunks ADD CONSTRAINT short CHECK (length(content) < 40)")
        with pytest.raises(SourceError):
            sink.put("notes", "b", "", "1", [Chunk(content="The approval limit of the board is nine million.")])
        with pytest.raises(StoreError):
            sink.commit()
        raise StoreError("given up")
    assert found(store) == {"a"}


def test_tables_of_a_later_version_are_refused(store: Any) -> None:
    write(store, "a")
    run(store, "UPDATE state SET version = 99")
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceUnavailable)
    assert isinstance(error_of(lambda: write(store, "b")), StoreVersionMismatch)


def test_texts_of_another_analysis_are_analysed_again(store: Any) -> None:
    write(store, "a")
    run(store, "UPDATE state SET words_version = 'old'; DELETE FROM words")
    assert isinstance(error_of(lambda: store.source().search(QUESTION)), SourceUnavailable)
    write(store)
    assert found(store) == {"a"}


def test_vectors_of_another_model_are_refused_until_they_are_made_again(vector_store: Any) -> None:
    write(vector_store, "a")
    vector_store.embedder = FakeEmbedder(32)
    assert isinstance(error_of(lambda: vector_store.source().search(QUESTION)), SourceUnavailable)
    assert isinstance(error_of(lambda: write(vector_store, "b")), StoreVersionMismatch)
    vector_store.repair = True
    write(vector_store, "b")
    assert found(vector_store) == {"a", "b"}


def test_a_lost_extension_is_said(vector_server: Any) -> None:
    bare = Store(vector_server.new_database(), FakeEmbedder(64))  # other tests keep vectors in the first database
    write(bare, "a")
    run(bare, "DROP EXTENSION vector CASCADE")
    error = error_of(lambda: bare.source().search(QUESTION))
    assert isinstance(error, SourceUnavailable) and not error.retryable
    bare.repair = True
    write(bare, "a")
    assert found(bare) == {"a"}


def test_a_server_without_pgvector_searches_texts_and_refuses_an_embedder(store: Any) -> None:
    write(store, "a")
    store.embedder = FakeEmbedder(64)
    answer = store.source().search(QUESTION)
    assert [notice.code for notice in answer.notices] == [NoticeCode.NO_VECTORS] and answer.chunks
    if not _has_pgvector(store):
        assert "pgvector" in str(error_of(lambda: write(store, "b")))


def _has_pgvector(store: Any) -> bool:
    with psycopg.connect(store.dsn) as connection:
        return bool(connection.execute("SELECT 1 FROM pg_available_extensions WHERE name = 'vector'").fetchone())


def test_the_examination_names_server_and_extensions(vector_store: Any) -> None:
    write(vector_store, "a", "b")
    report = vector_store.source().examine(ExaminationRequest(domain="NPA", query="approval limit"))
    assert report.ok and report.documents == 2 and report.records == 2 and report.version
    extensions = report.details["extensions"]
    assert report.kind == f"PostgreSQL {report.version}"
    assert report.search_method == f"tsvector, pgvector {extensions['vector']}"


def test_an_examination_names_a_copy_that_a_trial_left_to_those_who_may_read_all(store: Any) -> None:
    with store.sink() as sink:
        sink.put("notes", "limits", "", "h", [Chunk(content="The limit is five million.")])
    left = f"{store.schema}_copy_0123456789ab"
    with psycopg.connect(store.dsn, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {left}".encode())
    (told,) = store.source().examine(ExaminationRequest(domain="NPA")).warnings
    assert f"DROP SCHEMA {left} CASCADE removes it" in told.message
    public = AccessScope(clearance=Classification.PUBLIC)
    assert not store.source().examine(ExaminationRequest(domain="NPA", access=public)).warnings
