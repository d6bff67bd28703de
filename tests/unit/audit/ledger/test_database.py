"""A ledger is made, opened, shared and refused."""

from __future__ import annotations

import os
import sqlite3
import stat
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import pytest
from sqlalchemy import delete, insert, select, text, update

from context_engine.audit.ledger.database import open_database
from context_engine.audit.ledger.ledger import Ledger
from context_engine.audit.ledger.schema import VERSION, meta, migrate, pending
from context_engine.audit.values import Draft
from context_engine.errors import AuditError, LedgerCorrupt, LedgerNotFound, LedgerVersionMismatch
from context_engine.secrecy import hide

Draws = Callable[..., Draft]
Opens = Callable[..., Ledger]
posix = pytest.mark.skipif(os.name != "posix", reason="modes and forks of POSIX")


def test_a_ledger_keeps_the_name_it_was_made_with(ledger: Ledger, url: str) -> None:
    database = open_database(url, origin="another.example/name")
    with database.connect() as connection:
        assert database.about(connection).origin == ledger.origin == "audit.bank.example/retrieval"
    assert ledger.minimum_index == 0
    database.close()


def test_a_ledger_that_must_be_there_is_not_made(open_ledger: Opens) -> None:
    with pytest.raises(AuditError, match="there is no ledger in "):
        open_ledger(create=False)
    open_ledger().close()
    assert open_ledger(create=False).size == 0


def test_many_who_open_at_once_find_one_ledger(open_ledger: Opens) -> None:
    found: list[bytes] = []
    threads = [threading.Thread(target=lambda: found.append(open_ledger().pseudonym_salt)) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 8 and len(set(found)) == 1


@posix
def test_a_file_is_its_owners_alone(tmp_path: Path, open_at: Opens) -> None:
    place = tmp_path / "data/audit/ledger.db"
    open_at(place)
    assert stat.S_IMODE(place.stat().st_mode) == 0o600
    assert stat.S_IMODE(place.parent.stat().st_mode) == 0o700
    assert {stat.S_IMODE(path.stat().st_mode) for path in place.parent.iterdir()} == {0o600}


def test_the_mode_of_a_folder_that_was_there_is_left_alone(tmp_path: Path, open_at: Opens) -> None:
    tmp_path.chmod(0o755)
    open_at(tmp_path / "ledger.db")
    assert stat.S_IMODE(tmp_path.stat().st_mode) == 0o755


def test_a_file_is_written_ahead_and_durable_at_each_commit(tmp_path: Path, open_at: Opens) -> None:
    with open_at(tmp_path / "ledger.db").database.begin() as connection:
        assert connection.scalar(text("PRAGMA journal_mode")) == "wal"
        assert connection.scalar(text("PRAGMA synchronous")) == 2  # FULL


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path, open_at: Opens) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(AuditError, match="name another place in CONTEXT_ENGINE_AUDIT_LEDGER"):
        open_at(tmp_path / "file/audit/ledger.db")


def test_a_folder_that_may_not_be_entered_is_named(
    tmp_path: Path, open_at: Opens, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object, **__: object) -> NoReturn:
        raise PermissionError(13, "Permission denied")

    file = tmp_path / "audit" / "ledger.db"
    monkeypatch.setattr(Path, "stat", refused)  # root may enter every folder
    for create in (True, False):
        with pytest.raises(AuditError, match=r"cannot be reached \(Permission denied\): give this user access"):
            open_at(str(file), create=create)


def test_a_file_that_is_no_database_is_damaged(tmp_path: Path, open_at: Opens) -> None:
    (tmp_path / "ledger.db").write_text("no database, and longer than the header of one. " * 10)
    with pytest.raises(LedgerCorrupt, match=r"ledger\.db is damaged or is not a ledger \(file is not a database\)"):
        open_at(tmp_path / "ledger.db")


def test_a_database_of_something_else_is_left_alone(tmp_path: Path, open_at: Opens) -> None:
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        other.execute("CREATE TABLE documents(text)")
    with pytest.raises(AuditError, match="holds tables other than a ledger's"):
        open_at(tmp_path / "other.db")
    with closing(sqlite3.connect(tmp_path / "other.db")) as other:
        assert other.execute("SELECT name FROM sqlite_master").fetchall() == [("documents",)]


def test_a_ledger_of_a_newer_version_is_refused(ledger: Ledger, open_ledger: Opens) -> None:
    with ledger.database.begin() as connection:
        connection.execute(update(meta).where(meta.c.name == "schema_version").values(value=str(VERSION + 1)))
    with pytest.raises(LedgerVersionMismatch, match=f"schema version {VERSION + 1}; this program knows {VERSION}"):
        open_ledger()


@pytest.mark.parametrize("name", ["schema_version", "origin", "pseudonym_salt", "minimum_index"])
def test_a_ledger_that_has_lost_its_record_of_itself_is_damaged(ledger: Ledger, open_ledger: Opens, name: str) -> None:
    with ledger.database.begin() as connection:
        connection.execute(delete(meta).where(meta.c.name == name))
    with pytest.raises(LedgerCorrupt, match="has lost its own description"):
        open_ledger()


@pytest.mark.parametrize("name", ["schema_version", "pseudonym_salt", "minimum_index"])
def test_a_record_of_itself_that_is_no_text_is_damage(tmp_path: Path, open_at: Opens, name: str) -> None:
    place = tmp_path / "ledger.db"
    open_at(place).close()
    with sqlite3.connect(place) as raw:
        raw.execute("UPDATE meta SET value = x'00ff' WHERE name = ?", (name,))
    raw.close()
    with pytest.raises(LedgerCorrupt):
        open_at(place)


def test_migrations_are_taken_in_order_from_the_version_on(ledger: Ledger) -> None:
    taken: list[int] = []
    steps = tuple(lambda _, number=number: taken.append(number) for number in (1, 2, 3))
    with ledger.database.begin() as connection:
        assert migrate(connection, 2, steps) == 4
        assert connection.scalar(select(meta.c.value).where(meta.c.name == "schema_version")) == "4"
    assert taken == [2, 3]


def test_who_may_not_write_reads(tmp_path: Path, open_at: Opens, draft: Draws, monkeypatch: Any) -> None:
    place = str(tmp_path / "ledger.db")
    writer = open_at(place)
    writer.append([draft("a"), draft("b")])
    writer.integrate(limit=1)
    writer.close()
    monkeypatch.setattr(os, "access", lambda _path, mode: mode != os.W_OK)
    reader = open_at(place)
    assert (reader.size, reader.pending_count(), reader.integrate()) == (1, 1, 0)
    with pytest.raises(AuditError, match="this user may only read the ledger"):
        reader.append([draft("c")])


def test_a_ledger_that_is_closed_can_be_read_by_who_may_not_write_to_its_folder(
    tmp_path: Path, open_at: Opens, draft: Draws
) -> None:
    writer = open_at(tmp_path / "ledger.db")
    writer.append([draft("a")])
    writer.close()
    assert {path.name for path in tmp_path.iterdir()} >= {"ledger.db", "ledger.db-wal", "ledger.db-shm"}


def test_a_database_error_says_what_where_and_how_to_mend_but_not_what_was_asked(ledger: Ledger, draft: Draws) -> None:
    with ledger.database.begin() as connection:
        connection.execute(text("DROP TABLE pending"))
    with pytest.raises(AuditError, match=r"cannot be used .*pending.*: check") as caught:
        ledger.append([draft("s-1", domain="the question")])
    assert "the question" not in f"{caught.value} {caught.value.__cause__}"


def test_an_error_inside_a_transaction_rolls_it_back(ledger: Ledger) -> None:
    with pytest.raises(ZeroDivisionError), ledger.database.begin() as connection:
        connection.execute(delete(meta))
        _ = 1 / 0
    assert ledger.minimum_index == 0


@posix
def test_a_forked_child_has_connections_of_its_own(ledger: Ledger, draft: Draws) -> None:
    ledger.append([draft("parent-1")])
    child = os.fork()
    if child == 0:
        code = 1
        try:
            ledger.append([draft("child")])
            code = 0 if ledger.integrate() == 2 else 2
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    ledger.append([draft("parent-2")])
    assert ledger.integrate() == 1 and ledger.size == 3


def test_threads_read_and_write_at_once(ledger: Ledger, draft: Draws) -> None:
    def work(name: str) -> None:
        for number in range(5):
            ledger.append([draft(f"{name}-{number}")])
            ledger.integrate()
            ledger.root()

    threads = [threading.Thread(target=work, args=(name,)) for name in "abcd"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ledger.integrate()
    assert ledger.size == 20 and ledger.pending_count() == 0


class TestDsn:
    PASSWORD = "a-password-of-nobody"

    @pytest.mark.parametrize("url", ["mysql://u:{}@h/d", "sqlite://{}"])
    def test_of_another_database_is_refused(self, open_at: Opens, url: str) -> None:
        with pytest.raises(AuditError, match=r"a file or a PostgreSQL database .*, not (mysql|sqlite)://") as caught:
            open_at(url.format(self.PASSWORD))
        assert self.PASSWORD not in str(caught.value)

    def test_of_no_form_is_not_shown(self, open_at: Opens) -> None:
        with pytest.raises(AuditError, match="not of the form postgresql://") as caught:
            open_at(f"postgresql://user:{self.PASSWORD}@host:port/database")
        assert self.PASSWORD not in repr(caught.value) and caught.value.__suppress_context__

    @pytest.mark.parametrize(
        ("form", "password"),
        [
            ("user:{}@127.0.0.1:1/database", "brown-heron-31"),
            ("user@127.0.0.1:1/database?password={}", "seven-lamps-08"),
            ("user@127.0.0.1:1/database?sslpassword={}", "quiet-mill-965"),
        ],
    )
    def test_of_a_server_that_is_not_there_is_said_without_the_password(
        self, open_at: Opens, form: str, password: str
    ) -> None:
        began = time.monotonic()
        with pytest.raises(AuditError, match="check that the server runs") as caught:
            open_at(f"postgresql://{form.format(password)}")
        assert time.monotonic() - began < 8
        said = f"{caught.value!r} {caught.value.__cause__!r}"
        assert hide(password) != password, "it is hidden wherever else it may show"
        assert password not in said and "postgresql://127.0.0.1:1/database" in said


@pytest.mark.slow
class TestServer:
    def test_a_wrong_password_is_not_shown(self, postgresql_server: Any, open_at: Opens) -> None:
        with pytest.raises(AuditError, match="user, password and database") as caught:
            open_at(postgresql_server.dsn("postgres", password="wrong-password-1"))
        assert "wrong-password-1" not in f"{caught.value!r} {caught.value.__cause__!r}"

    def test_a_database_that_is_not_there_is_said(self, postgresql_server: Any, open_at: Opens) -> None:
        with pytest.raises(AuditError, match="nowhere"):
            open_at(postgresql_server.dsn("nowhere"))

    @pytest.mark.parametrize(
        ("server", "ledger"),
        [("off", "on"), ("local", "on"), ("remote_write", "on"), ("on", "on"), ("remote_apply", "remote_apply")],
    )
    def test_a_commit_waits_for_the_disk_and_for_whatever_else_the_server_says(
        self, postgresql_server: Any, open_at: Opens, server: str, ledger: str
    ) -> None:
        place = postgresql_server.new_database()
        name = place.rpartition("/")[2]
        postgresql_server.execute(f"ALTER DATABASE {name} SET synchronous_commit = '{server}'")
        with open_at(place).database.connect() as connection:
            assert connection.exec_driver_sql("SHOW synchronous_commit").scalar() == ledger

    def test_tables_of_others_stay_beside_the_ledgers(self, postgresql_server: Any, open_at: Opens) -> None:
        place = postgresql_server.new_database()
        postgresql_server.execute("CREATE TABLE documents(text text)", place)
        assert open_at(place).size == 0

    def test_a_table_of_others_of_the_same_name_is_refused(self, postgresql_server: Any, open_at: Opens) -> None:
        place = postgresql_server.new_database()
        postgresql_server.execute("CREATE TABLE log(text text)", place)
        with pytest.raises(AuditError, match="holds tables other than a ledger's"):
            open_at(place)

    def test_a_user_who_may_only_read_reads(self, postgresql_server: Any, open_at: Opens, draft: Draws) -> None:
        place = postgresql_server.new_database()
        writer = open_at(place)
        writer.append([draft("a")])
        postgresql_server.execute("CREATE ROLE auditor LOGIN PASSWORD 'of-the-auditor'")
        postgresql_server.execute("GRANT SELECT ON ALL TABLES IN SCHEMA public TO auditor", place)
        name = place.rpartition("/")[2]
        reader = open_at(postgresql_server.dsn(name, user="auditor", password="of-the-auditor"))
        assert (reader.pending_count(), reader.integrate()) == (1, 0)
        with pytest.raises(AuditError, match="this user may only read the ledger"):
            reader.append([draft("b")])
        reader.close()
        postgresql_server.execute("DROP OWNED BY auditor; DROP ROLE auditor", place)

    def test_a_server_that_stops_is_noticed_and_found_again(
        self, postgresql_server: Any, open_at: Opens, draft: Draws
    ) -> None:
        ledger = open_at(postgresql_server.new_database())
        ledger.append([draft("a")])
        postgresql_server.stop()
        began = time.monotonic()
        with pytest.raises(AuditError, match="check that the server runs"):
            ledger.append([draft("b")])
        assert time.monotonic() - began < 8
        postgresql_server.start()
        ledger.append([draft("b")])
        assert ledger.integrate() == 2

    def test_who_holds_the_lease_is_not_waited_for(self, postgresql_server: Any, open_at: Opens, draft: Draws) -> None:
        place = postgresql_server.new_database()
        one, other = open_at(place), open_at(place)
        one.append([draft("a")])
        with one.database.lease() as held:
            assert held is not None
            assert other.integrate() == 0
            other.append([draft("b")])
        assert other.integrate() == 2

    def test_ledgers_in_two_schemas_of_a_database_do_not_meet(
        self, postgresql_server: Any, open_at: Opens, draft: Draws
    ) -> None:
        place = postgresql_server.new_database()
        postgresql_server.execute("CREATE SCHEMA other", place)
        one, other = open_at(place), open_at(f"{place}?options=-csearch_path%3Dother")
        one.append([draft("a")])
        other.append([draft("b")])
        with one.database.lease():
            assert other.integrate() == 1
        assert one.size == 0 and one.pending_count() == 1

    def test_records_that_share_contents_in_another_order_never_wait_in_a_circle(
        self, postgresql_server: Any, open_at: Opens, draft: Draws
    ) -> None:
        from context_engine.audit.values import Content

        ledger = open_at(postgresql_server.new_database())
        texts = [Content("text", b"text %d" % number) for number in range(400)]
        failed: list[BaseException] = []

        def work(name: str, step: int) -> None:
            try:
                for number in range(0, 400, 20):
                    shared = tuple(texts[number : number + 20][::step])
                    ledger.append([draft(f"{name}-{number}", contents=shared)])
            except AuditError as error:
                failed.append(error)

        threads = [threading.Thread(target=work, args=(f"{n}", (-1) ** n)) for n in range(6)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert failed == [] and ledger.integrate() == 120
        with ledger.database.connect() as connection:
            assert connection.scalar(text("SELECT count(*) FROM addendum")) == 400
            assert connection.scalar(select(pending.c.seq)) is None


@pytest.mark.slow
def test_a_statement_that_reads_the_whole_ledger_may_take_its_time_and_no_other(
    request: pytest.FixtureRequest, open_at: Opens
) -> None:
    database = open_at(request.getfixturevalue("postgresql_server").new_database()).database
    limits = []
    for lent in (database.connect(patient=True), database.begin(alone=True), database.connect(), database.begin()):
        with lent as connection:
            limits.append(connection.scalar(text("SHOW statement_timeout")))
    assert limits == ["0", "0", "30s", "30s"]


def test_a_copy_of_the_file_alone_holds_what_was_written(tmp_path: Path) -> None:
    database = open_database(str(tmp_path / "ledger.db"), origin="log")
    with database.begin() as connection:
        connection.execute(insert(meta).values(name="kept", value="yes"))
    database.close()
    alone = tmp_path / "alone.db"
    alone.write_bytes((tmp_path / "ledger.db").read_bytes())
    copied = open_database(str(alone), origin="log", create=False)
    with copied.connect() as connection:
        assert connection.scalar(select(meta.c.value).where(meta.c.name == "kept")) == "yes"
    copied.close()


def test_a_file_without_its_log_is_not_said_to_be_missing(tmp_path: Path) -> None:
    file = tmp_path / "ledger.db"
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
    with pytest.raises(LedgerNotFound, match=r"ledger\.db-wal"):
        open_database(str(file), origin="log", create=False)
