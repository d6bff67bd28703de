"""Another session holds a lock: who may not need the table is answered, others are told its name in time."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import psycopg
import pytest

from context_engine.adapters.sources.postgres import connection
from context_engine.core.models import AccessRule, AccessScope, Chunk, Classification
from context_engine.errors import SourceBusy, StoreError, StoreLocked
from tests.engines.postgres.test_faults import QUESTION, error_of
from tests.engines.postgres.test_servers import until
from tests.postgresql_store import Store

pytestmark = pytest.mark.slow
EVERYBODY = AccessScope(clearance=Classification.INTERNAL)
SOON = replace(QUESTION, timeout_s=1.0)


def rules_of(source_id: str) -> str:
    return "board" if source_id == "board" else ""


def put(store: Store, source_id: str, name: str) -> None:
    with store.sink(store.spec(), store.spec("board"), rules_of=rules_of) as sink:
        sink.put(source_id, name, "", "1", [Chunk(content=f"The approval limit is five million. {name}")])


@pytest.fixture
def filled(store: Store) -> Store:
    """A store with an open document in the partition `words_1`, and one of the board in `words_2`."""
    for source_id, name in (("notes", "a"), ("board", "b")):
        put(store, source_id, name)
    return store


@contextmanager
def locked(store: Store, table: str) -> Iterator[None]:
    with psycopg.connect(store.dsn) as session:
        session.execute(f"LOCK TABLE {store.schema}.{table} IN ACCESS EXCLUSIVE MODE".encode())
        yield


def documents(source: Any, query: Any = QUESTION) -> set[str | None]:
    return {chunk.document_id for chunk in source.search(query).chunks}


def test_a_locked_partition_keeps_nobody_from_the_others(filled: Store) -> None:
    board = filled.source(filled.spec("board", access=AccessRule(roles=("board",))), rules_of)
    notes = filled.source(filled.spec(), rules_of)
    with locked(filled, "words_2"):
        assert documents(notes, replace(QUESTION, access=EVERYBODY)) == {"a"}, "who may not read it does not wait"
        started = time.monotonic()
        error = error_of(lambda: board.search(SOON))
        assert time.monotonic() - started < 3.0
        assert isinstance(error, SourceBusy) and error.retryable and "'words_2'" in str(error)
    assert documents(board) == {"b"}


def test_a_load_waits_for_a_lock_no_longer_than_it_should_and_names_the_table(
    filled: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        connection, "_WRITES", connection._WRITES.replace("lock_timeout = '10s'", "lock_timeout = '1s'")
    )
    for table in ("words_2", "documents"):
        with locked(filled, table):
            error = error_of(lambda: put(filled, "board", "c"))
            assert isinstance(error, SourceBusy) and error.retryable and repr(table) in str(error)
        assert documents(filled.source(filled.spec("board"), rules_of)) == {"b"}, "whole commits"
    put(filled, "board", "c")
    assert documents(filled.source(filled.spec("board"), rules_of)) == {"b", "c"}


def test_a_writer_that_is_killed_in_a_long_statement_locks_the_store_for_seconds(filled: Store) -> None:
    with pytest.raises(StoreError), filled.sink() as sink:
        session: Any = sink._session  # type: ignore[attr-defined]
        if session.info.server_version < 140000:
            pytest.skip("this server does not look after its clients")
        waiting = threading.Thread(target=lambda: wait_in(session))
        waiting.start()
        time.sleep(0.2)
        with socket.socket(fileno=os.dup(session.fileno())) as line:
            line.shutdown(socket.SHUT_RDWR)  # what the server sees of a process that is killed
        waiting.join()
        until(lambda: not isinstance(written(filled), StoreLocked))
        sink.commit()
    assert documents(filled.source()) == {"a", "d"}


def wait_in(session: Any) -> None:
    with pytest.raises(psycopg.Error):
        session.execute("SELECT pg_sleep(60)")


def written(store: Store) -> StoreError | None:
    """Write a document; return the error of a store that is locked."""
    try:
        put(store, "notes", "d")
    except StoreLocked as error:
        return error
    return None
