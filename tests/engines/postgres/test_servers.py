"""What becomes of a store when its server, its disk or the certificate are not as they should be."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest

from context_engine.core.models import Chunk
from context_engine.errors import ContextEngineError, SourceUnavailable
from tests.certificate import write_certificate
from tests.engines.postgres.test_faults import QUESTION, error_of, found, waits, write
from tests.postgresql_server import PostgresqlServer, programs
from tests.postgresql_store import Store

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def primary() -> Iterator[PostgresqlServer]:
    if programs() is None:
        pytest.skip("no PostgreSQL here: apt-get install postgresql")
    with PostgresqlServer() as server:
        yield server


def until(condition: Callable[[], object]) -> None:
    end = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.02)


def value(server: PostgresqlServer, query: str) -> Any:
    with psycopg.connect(server.dsn("postgres")) as connection:
        row = connection.execute(query.encode()).fetchone()
    return row and row[0]


def test_the_certificate_of_the_server_is_checked(primary: PostgresqlServer, tmp_path: Path) -> None:
    own, other = tmp_path / "ca.pem", tmp_path / "other.pem"
    files = [primary.data / name for name in ("server.crt", "server.key")]
    write_certificate(*files)
    write_certificate(other, tmp_path / "other.key")
    own.write_bytes(files[0].read_bytes())
    for file in files:
        file.chmod(0o600)
        primary.give(file)
    store = Store(primary.new_database())
    plain = store.connection

    def with_bundle(bundle: Path, host: str = "127.0.0.1") -> None:
        url = plain.base_url.replace("127.0.0.1", host)
        store.connection = plain.model_copy(update={"ca_bundle": bundle, "base_url": url})

    with_bundle(own)
    assert "does not speak TLS" in str(error_of(lambda: write(store, "a"))), "a server without TLS is not asked"
    primary.execute("ALTER SYSTEM SET ssl = on")
    primary.execute("SELECT pg_reload_conf()")
    until(lambda: value(primary, "SELECT ssl FROM pg_stat_ssl WHERE pid = pg_backend_pid()"))
    write(store, "a")
    assert found(store) == {"a"}
    for bundle, host in ((other, "127.0.0.1"), (tmp_path / "nowhere.pem", "127.0.0.1"), (own, "localhost")):
        with_bundle(bundle, host)
        error = error_of(lambda: store.source().search(QUESTION))
        assert isinstance(error, SourceUnavailable) and not error.retryable
        assert "certificate" in str(error) and "ca_bundle" in str(error), (bundle, host)


@contextmanager
def small_disk(server: PostgresqlServer) -> Iterator[Path]:
    """Yield a disk of 24 MB with the database `small`."""
    disk = server.data.parent / "disk"
    disk.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", disk], capture_output=True, check=False)
    if made.returncode:
        pytest.skip("no small disk here: only root may mount one")
    try:
        server.give(disk)
        server.execute(f"CREATE TABLESPACE small LOCATION '{disk}'")
        server.execute("CREATE DATABASE small TABLESPACE small")
        yield disk
    finally:
        server.execute("DROP DATABASE IF EXISTS small WITH (FORCE)")
        server.execute("DROP TABLESPACE IF EXISTS small")
        subprocess.run(["umount", disk], check=True)


def test_a_full_disk_is_said_and_searches_go_on(primary: PostgresqlServer) -> None:
    with small_disk(primary) as disk:
        store = Store(primary.dsn("small"))
        write(store, "a")
        source = store.source()
        assert source.search(QUESTION).chunks
        with pytest.raises(OSError), (disk / "other").open("wb") as file:
            while True:
                file.write(bytes(4096))
                file.flush()
        names = [f"b{number}" for number in range(100)]
        error = error_of(lambda: write(store, *names))
        assert isinstance(error, SourceUnavailable) and error.retryable and "disk" in str(error)
        assert {chunk.document_id for chunk in source.search(QUESTION).chunks} == {"a"}
        (disk / "other").unlink()
        write(store, "c")
        assert found(store) == {"a", "c"}


def test_a_standby_answers_and_takes_over_when_the_primary_is_killed(primary: PostgresqlServer) -> None:
    store = Store(primary.new_database())
    write(store, "a")
    with PostgresqlServer(standby_of=primary) as standby:
        url = store.connection.base_url.replace(f":{primary.port}/", f":{primary.port},127.0.0.1:{standby.port}/")
        store.connection = store.connection.model_copy(update={"base_url": url})
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = '*'")
        primary.execute("SELECT pg_reload_conf()")
        until(lambda: value(primary, "SELECT sync_state = 'sync' FROM pg_stat_replication"))
        store.own["read_from"] = "standby"
        lasting = store.source()
        until(lambda: {chunk.document_id for chunk in lasting.search(QUESTION).chunks} == {"a"})
        store.own["read_from"] = "primary"
        searching = store.source()
        assert searching.search(QUESTION).chunks
        with pytest.raises(ContextEngineError), store.sink() as sink:
            sink.put("notes", "b", "", "1", [Chunk(content="The approval limit of the desk.")])
            sink.commit()
            error = killed_in_a_search(primary, store, searching)
            assert isinstance(error, SourceUnavailable) and error.retryable
            sink.put("notes", "c", "", "1", [Chunk(content="The approval limit of the board.")])
            sink.commit()
        until(lambda: {chunk.document_id for chunk in lasting.search(QUESTION).chunks} == {"a", "b"})
        for action in (lambda: searching.search(QUESTION), lambda: write(store, "c")):
            error = error_of(action)
            assert isinstance(error, SourceUnavailable) and error.retryable
        standby.execute("SELECT pg_promote()")
        assert {chunk.document_id for chunk in searching.search(QUESTION).chunks} == {"a", "b"}
        write(store, "c")
        assert found(store) == {"a", "b", "c"}
    primary.start()


def killed_in_a_search(server: PostgresqlServer, store: Store, source: Any) -> Any:
    """Kill a server while a search waits for it; return the error of the search."""
    errors: list[Any] = []
    search = threading.Thread(target=lambda: errors.append(error_of(lambda: source.search(QUESTION))))
    with pytest.raises(psycopg.OperationalError), psycopg.connect(store.dsn) as connection:
        connection.execute(f"LOCK TABLE {store.schema}.words IN ACCESS EXCLUSIVE MODE".encode())
        search.start()
        until(lambda: waits(store))
        server.crash()
        search.join()
        connection.execute("SELECT 1")
    return errors[0]
