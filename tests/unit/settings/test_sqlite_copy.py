"""A copy of a database in use is one snapshot of it, without what was deleted."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from context_engine.errors import BackupError
from context_engine.settings.sqlite_copy import copy_database, require_unused


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "in use.sqlite"


@pytest.fixture
def writer(path: Path) -> Iterator[sqlite3.Connection]:
    """A database with three rows, the second deleted, open with a write-ahead log."""
    with closing(sqlite3.connect(path, isolation_level=None)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA secure_delete = OFF")
        connection.execute("PRAGMA user_version = 7")
        connection.execute("CREATE TABLE rows(id INTEGER PRIMARY KEY AUTOINCREMENT, text TEXT)")
        connection.executemany("INSERT INTO rows(text) VALUES (?)", [("kept",), ("erased words",), ("kept too",)])
        connection.execute("DELETE FROM rows WHERE id = 2")
        yield connection


def contents(path: Path) -> list[tuple[int, str]]:
    with closing(sqlite3.connect(path)) as connection:
        return connection.execute("SELECT id, text FROM rows").fetchall()


def test_a_copy_is_the_last_commit_while_a_writer_writes(
    path: Path, tmp_path: Path, writer: sqlite3.Connection
) -> None:
    writer.execute("BEGIN IMMEDIATE")
    writer.execute("INSERT INTO rows(text) VALUES ('not committed')")
    copy_database(path, tmp_path / "copy")
    writer.execute("COMMIT")
    assert contents(tmp_path / "copy") == [(1, "kept"), (3, "kept too")]
    with closing(sqlite3.connect(tmp_path / "copy")) as copy:
        assert copy.execute("PRAGMA user_version").fetchone() == (7,)
        assert copy.execute("SELECT seq FROM sqlite_sequence").fetchone() == (3,)


def test_deleted_words_are_not_in_the_copy(path: Path, tmp_path: Path, writer: sqlite3.Connection) -> None:
    writer.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    copy_database(path, tmp_path / "copy")
    assert b"erased words" in path.read_bytes()
    assert b"erased words" not in (tmp_path / "copy").read_bytes()


def test_a_damaged_database_is_not_copied(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"SQLite format 3\0" + bytes(5000))
    with pytest.raises(sqlite3.DatabaseError):
        copy_database(tmp_path / "damaged", tmp_path / "copy")


def test_a_database_that_is_open_elsewhere_is_in_use(path: Path, writer: sqlite3.Connection) -> None:
    with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as reader:
        reader.execute("SELECT count(*) FROM rows").fetchone()
        writer.close()
        with pytest.raises(BackupError, match="stop the service"):
            require_unused(path)
    require_unused(path)
    assert [file.name for file in path.parent.iterdir()] == [path.name]
    assert contents(path) == [(1, "kept"), (3, "kept too")]


def test_a_damaged_database_is_used_by_nobody(tmp_path: Path) -> None:
    (tmp_path / "damaged").write_bytes(b"no database" * 500)
    require_unused(tmp_path / "damaged")  # raises nothing, and changes nothing
    assert (tmp_path / "damaged").read_bytes() == b"no database" * 500
