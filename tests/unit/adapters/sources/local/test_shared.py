"""A base that one user writes and others, who may not write to its folder, read."""

from __future__ import annotations

import os
import sqlite3
import stat
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase, reader
from context_engine.adapters.sources.local import index as indexing
from context_engine.core.models import Chunk
from context_engine.errors import StoreCorrupt, StoreError

pytestmark = pytest.mark.skipif(os.name != "posix", reason="files have no modes")


@pytest.fixture
def umask() -> Iterator[None]:
    former = os.umask(0o027)
    yield
    os.umask(former)


@pytest.fixture
def base(folder: Path, umask: None) -> Iterator[LocalBase]:
    with LocalBase(folder) as opened:
        for number in range(3):
            with opened.writer() as writer:
                writer.put("sop", str(number), "", "h", [Chunk(content="limit", chunk_id=str(number))])
        yield opened


def test_who_may_read_the_rows_may_read_the_index(base: LocalBase, folder: Path) -> None:
    read = [path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(".")]
    assert {indexing.META, indexing.MARK, "base.sqlite3"} <= {path.name for path in read}
    closed = [path.name for path in read if not stat.S_IMODE(path.stat().st_mode) & stat.S_IRGRP]
    assert not closed
    assert not [path.name for path in read if stat.S_IMODE(path.stat().st_mode) & stat.S_IROTH]


def test_an_index_that_others_could_not_read_is_mended_by_a_rebuild(base: LocalBase, folder: Path) -> None:
    for path in folder.glob(f"*/*/{indexing.META}"):
        path.chmod(0o600)
    base.rebuild()
    assert [stat.S_IMODE(path.stat().st_mode) for path in folder.glob(f"*/*/{indexing.META}")] == [0o640]


def test_the_log_stays_when_the_writer_has_gone(base: LocalBase, folder: Path) -> None:
    """SQLite cannot open a base with a log, in a folder that it may not write to, where the log's files are missing."""
    base.close()
    base.repartition()
    assert {"base.sqlite3-wal", "base.sqlite3-shm"} <= {path.name for path in folder.iterdir()}


def refuse(monkeypatch: pytest.MonkeyPatch, times: int) -> None:
    read, left = indexing.read_meta, [times]

    def refused(path: Path) -> dict[str, Any]:
        if left[0]:
            left[0] -= 1
            raise PermissionError(13, "Permission denied", str(path / indexing.META))
        return read(path)

    monkeypatch.setattr(indexing, "read_meta", refused)
    monkeypatch.setattr(reader, "_SHARED_WITHIN_S", 0.0)


def test_a_list_that_a_writer_is_about_to_share_is_waited_for(base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, 3)
    assert len(base.search("limit", source_id="sop", top_k=9)) == 3


def test_what_may_not_be_read_is_not_damaged(base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse(monkeypatch, 10_000)
    for read in (lambda: base.search("limit", source_id="sop", top_k=9), base.verify):
        with pytest.raises(StoreError, match=indexing.META) as raised:
            read()
        assert not isinstance(raised.value, StoreCorrupt)


@pytest.mark.parametrize(("code", "tries"), [(sqlite3.SQLITE_READONLY_RECOVERY, 2), (sqlite3.SQLITE_CORRUPT, 1)])
def test_a_log_that_a_writer_sets_up_is_waited_for(code: int, tries: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reader, "_SHARED_WITHIN_S", 0.0)
    asked: list[str] = []

    class Connection(sqlite3.Connection):
        def execute(self, sql: str, *_: Any) -> sqlite3.Cursor:
            asked.append(sql)
            if len(asked) == 1:
                error = sqlite3.OperationalError("attempt to write a readonly database")
                error.sqlite_errorcode = code
                raise error
            return super().execute(sql)

    with closing(Connection(":memory:")) as connection:
        reader._await_log(connection)
    assert len(asked) == tries
