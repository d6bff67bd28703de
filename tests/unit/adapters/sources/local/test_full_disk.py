"""A disk that is full: every call says so, nothing that was acknowledged is lost, and nothing is lost in silence."""

from __future__ import annotations

import errno
import os
import resource
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase
from context_engine.core.models import Chunk
from context_engine.errors import StoreError

LONG = " ".join(f"word{n}" for n in range(100_000))
"""More than SQLite keeps back: a document of many such texts is written to the disk before its commit."""


@contextmanager
def full_disk(at: int) -> Iterator[None]:
    """No file grows beyond so many bytes."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (at, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def chunk(chunk_id: str, content: str = "limit text") -> Chunk:
    return Chunk(content=content, chunk_id=chunk_id)


def test_a_refused_commit_is_lost_and_says_so_until_it_is_rolled_back(
    base: LocalBase, folder: Path, find: Callable[..., list[str]]
) -> None:
    with base.writer() as writer:
        writer.put("sop", "kept", "", "h", [chunk("a")])
        writer.commit()
        writer.put("sop", "refused", "", "h", [chunk("b")])
        with (
            full_disk((folder / "base.sqlite3-wal").stat().st_size),
            pytest.raises(StoreError, match="cannot write to"),
        ):
            writer.commit()
        for call in (
            writer.commit,
            lambda: writer.put("sop", "next", "", "h", [chunk("c")]),
            lambda: writer.delete("sop", "kept", ""),
        ):
            with pytest.raises(StoreError, match=r"since the last commit is lost.* free space, roll back"):
                call()
        writer.rollback()
        assert writer.documents("sop") == {("kept", ""): "h"}
        writer.put("sop", "refused", "", "h", [chunk("b")])
    assert set(find("limit")) == {"a", "b"} and base.verify().ok


def test_a_document_that_is_refused_takes_the_uncommitted_ones_with_it_and_says_so(
    base: LocalBase, folder: Path, find: Callable[..., list[str]]
) -> None:
    """SQLite ends the whole transaction where the disk is full in the middle of it."""
    with base.writer() as writer:
        writer.put("sop", "kept", "", "h", [chunk("a")])
        writer.commit()
        writer.put("sop", "before", "", "h", [chunk("b")])
        with (
            full_disk((folder / "base.sqlite3-wal").stat().st_size + 100_000),
            pytest.raises(StoreError, match=r"cannot write to .*: (make room on|check) the disk"),
        ):
            writer.put("sop", "long", "", "h", [chunk(f"c{n}", LONG) for n in range(8)])
        with pytest.raises(StoreError, match="since the last commit is lost"):
            writer.put("sop", "after", "", "h", [chunk("d")])
        writer.rollback()
        for document, own in (("before", "b"), ("after", "d")):
            writer.put("sop", document, "", "h", [chunk(own)])
    assert set(find("limit")) == {"a", "b", "d"} and base.verify().ok


def test_a_full_disk_at_the_start_is_told_and_frees_the_lock(base: LocalBase, folder: Path) -> None:
    (folder / "writer.lock").unlink(missing_ok=True)
    with full_disk(0):
        with base.writer():
            pass  # held without a name: the lock's file cannot grow
        with pytest.raises(StoreError, match=r"cannot open .*other.* check the disk"):
            LocalBase.open(folder.parent / "other", create=True)
    LocalBase.open(folder.parent / "other", create=True).close()
    base.writer().close()


def test_a_folder_that_cannot_be_made_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(StoreError, match=r"cannot write to .*file.*[Ee]xists"):
        LocalBase(tmp_path / "file").writer()


@pytest.mark.wording
@pytest.mark.parametrize(
    ("number", "mend"),
    [(errno.ENOSPC, "make room on the disk"), (errno.EROFS, "--data-dir"), (errno.EACCES, "--data-dir")],
)
def test_a_lock_that_cannot_be_made_says_how_to_mend_it(
    base: LocalBase, monkeypatch: pytest.MonkeyPatch, number: int, mend: str
) -> None:
    def refused(*_args: Any, **_options: Any) -> None:
        raise OSError(number, os.strerror(number), "writer.lock")

    monkeypatch.setattr("context_engine.adapters.sources.local.writer.WriterLock", refused)
    with pytest.raises(StoreError, match=mend):
        base.writer()


@pytest.mark.wording
def test_an_index_without_room_says_how_to_mend_it(base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """The index gives its errors as text."""

    def refused(*_args: Any) -> None:
        raise ValueError("An IO error occurred: 'No space left on device (os error 28)'")

    monkeypatch.setattr("context_engine.adapters.sources.local.index_sync.PartitionIndex.stage", refused)
    with pytest.raises(StoreError, match=r"os error 28\)': make room on the disk$"), base.writer() as writer:
        writer.put("sop", "a", "", "h", [chunk("a")])


def test_a_base_killed_in_its_first_step_is_no_base_yet(tmp_path: Path) -> None:
    """Its file and the journal that undoes it, copied from the middle of a transaction."""
    begun = tmp_path / "begun"
    begun.mkdir()
    database = sqlite3.connect(tmp_path / "made.sqlite3", isolation_level=None)
    for statement in ("CREATE TABLE t(x)", "PRAGMA cache_size = 1", "BEGIN", "INSERT INTO t VALUES (zeroblob(100000))"):
        database.execute(statement)
    for name in ("", "-journal"):
        (begun / f"base.sqlite3{name}").write_bytes((tmp_path / f"made.sqlite3{name}").read_bytes())
    database.close()
    with pytest.raises(StoreError, match="there is no knowledge base"):
        LocalBase.open(begun)
    with LocalBase.open(begun, create=True) as base:
        assert base.verify().ok
