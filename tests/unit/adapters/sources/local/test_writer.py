"""Writing: put, replace, delete, commit and rollback, one writer at a time, catching up and rebuilding."""

from __future__ import annotations

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase
from context_engine.adapters.sources.local.index_sync import IndexSync, PartitionIndex
from context_engine.core.models import Chunk, Condition, FilterOp
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest, StoreError, StoreLocked
from context_engine.settings import sqlite_copy


def chunk(chunk_id: str, content: str = "limit text", **fields: Any) -> Chunk:
    return Chunk(content=content, chunk_id=chunk_id, **fields)


class TestDocuments:
    def test_put_tells_whether_it_wrote(self, base: LocalBase) -> None:
        with base.writer() as writer:
            assert writer.put("sop", "d", "1", "h1", [chunk("c")])
            assert not writer.put("sop", "d", "1", "h1", [chunk("other")])
            assert writer.put("sop", "d", "1", "h2", [chunk("c", "limit changed")])
            assert writer.put("sop", "d", "2", "h1", [chunk("c2")])
        assert [found.content for found in base.search("limit", source_id="sop", top_k=9)] == [
            "limit changed",
            "limit text",
        ]

    def test_what_is_unchanged_commits_nothing(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("c")])
        before = base.stats()
        with base.writer() as writer:
            assert not writer.put("sop", "d", "", "h", [chunk("c")])
            assert not writer.delete("sop", "gone", "")
        assert base.stats() == before

    def test_replacing_leaves_nothing_behind(self, base: LocalBase, find: Callable[..., list[str]]) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h1", [chunk(f"c{n}", f"limit old {n}") for n in range(5)])
        with base.writer() as writer:
            writer.put("sop", "d", "", "h2", [chunk("c0", "limit new")])
        assert find("limit") == ["c0"] and find("old") == []
        assert base.stats().chunks == 1 and base.verify().ok

    def test_replacing_twice_in_one_commit(self, base: LocalBase, find: Callable[..., list[str]]) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h1", [chunk("c", "limit one")])
            writer.commit()
            writer.put("sop", "d", "", "h2", [chunk("c", "limit two")])
            writer.put("sop", "d", "", "h3", [chunk("c", "limit three")])
        assert find("two") == [] and find("one") == [] and find("three") == ["c"]
        assert base.verify().ok

    def test_delete_and_put_again(self, base: LocalBase, find: Callable[..., list[str]]) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("c")])
            writer.commit()
            assert writer.delete("sop", "d", "") and not writer.delete("sop", "d", "")
            writer.commit()
            assert find("limit") == []
            assert writer.put("sop", "d", "", "h", [chunk("c")])
        assert find("limit") == ["c"] and base.verify().ok

    def test_row_numbers_are_never_used_again(self, base: LocalBase, folder: Path) -> None:
        seen: set[int] = set()
        for n in range(3):
            with base.writer() as writer:
                writer.delete("sop", "d", "")
                writer.put("sop", "d", "", f"h{n}", [chunk("c")])
            with sqlite3.connect(folder / "base.sqlite3") as connection:
                (rid,) = connection.execute("SELECT rid FROM chunks").fetchone()
            assert rid not in seen
            seen.add(rid)

    def test_documents_lists_hashes(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "1", "h1", [chunk("c1")])
            writer.put("sop", "d", "2", "h2", [chunk("c2")])
            writer.put("web", "e", "", "h3", [chunk("c3")])
            assert writer.documents("sop") == {("d", "1"): "h1", ("d", "2"): "h2"}
            writer.delete("sop", "d", "1")
            assert writer.documents("sop") == {("d", "2"): "h2"}
            assert writer.documents("other") == {}

    def test_a_document_without_chunks(self, base: LocalBase) -> None:
        with base.writer() as writer:
            assert writer.put("sop", "d", "", "h", [])
        assert (base.stats().documents, base.stats().chunks) == (1, 0) and base.verify().ok


class TestScrub:
    def test_what_was_deleted_is_in_no_file(self, base: LocalBase, find: Callable[..., list[str]]) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("c", "limit of Zanzibarite", metadata={"owner": "Zanzibarite"})])
            writer.put("sop", "e", "", "h", [chunk("k", "limit of the desk", metadata={"owner": "desk"})])
        with base.writer() as writer:
            writer.delete("sop", "d", "")
            assert writer.scrub() == ""
            writer.put("sop", "f", "", "h", [chunk("n", "limit of anybody", metadata={"owner": "desk"})])
        files = [path for path in base.path.rglob("*") if path.is_file()]
        assert [path.name for path in files if b"zanzibarite" in path.read_bytes().lower()] == []
        assert set(find("limit")) == {"k", "n"} and base.verify().ok
        owned = base.search("limit", source_id="sop", top_k=9, filters=Condition("owner", FilterOp.EQ, "desk"))
        assert {match.chunk_id for match in owned} == {"k", "n"}

    def test_a_reader_of_an_older_state_makes_it_incomplete(
        self, base: LocalBase, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(sqlite_copy, "_LONGEST_S", 0.0)
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("c")])
        with (
            closing(sqlite3.connect(base.path / "base.sqlite3", isolation_level=None)) as reader,
            base.writer() as writer,
        ):
            reader.execute("BEGIN")
            reader.execute("SELECT count(*) FROM chunks").fetchone()
            writer.delete("sop", "d", "")
            writer._connection.execute("PRAGMA busy_timeout = 0")  # else SQLite waits ten seconds for the reader
            with pytest.raises(StoreError, match=r"another process still reads .* run the same command again"):
                writer.scrub()
            reader.execute("ROLLBACK")
            assert writer.scrub() == ""


class TestChunkIds:
    def test_a_missing_id_is_the_hash_of_the_text(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("")])
        assert base.get("sop", content_sha256("limit text")) is not None

    def test_equal_texts_without_ids_are_told_apart(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk(""), chunk("")])
            writer.put("sop", "e", "", "h", [chunk("")])
        assert len({found.chunk_id for found in base.search("limit", source_id="sop", top_k=9)}) == 3

    def test_an_id_stands_once_in_a_source(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "1", "h", [chunk("c")])
            with pytest.raises(InvalidRequest, match="chunk id 'c' is in document 'd' version '1' already"):
                writer.put("sop", "e", "", "h", [chunk("fine"), chunk("c")])
            assert writer.put("web", "e", "", "h", [chunk("c")])
        assert base.stats().documents == 2 and base.get("sop", "fine") is None


class TestBadChunks:
    @pytest.mark.parametrize(
        ("bad", "says"),
        [
            (chunk("b", "  "), "no text"),
            (chunk("b", None), "no text"),
            (chunk("b", metadata={"x": object()}), "object is not a JSON value"),
            (chunk("b", metadata={"x": float("nan")}), "cannot be stored"),
            (chunk("b", "lone \ud800"), "cannot be stored"),
        ],
    )
    def test_one_bad_chunk_leaves_the_document_as_it_was(self, base: LocalBase, bad: Chunk, says: str) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h1", [chunk("c")])
            with pytest.raises(InvalidRequest, match=says):
                writer.put("sop", "d", "", "h2", [chunk("new"), bad])
            assert writer.documents("sop") == {("d", ""): "h1"}
        assert base.get("sop", "c") is not None and base.get("sop", "new") is None
        assert base.verify().ok

    def test_dates_in_metadata_become_iso_texts(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("c", metadata={"day": date(2025, 1, 2)})])
        found = base.get("sop", "c")
        assert found is not None and found.metadata == {"day": "2025-01-02"}


class TestTransactions:
    def test_an_error_rolls_back(self, base: LocalBase, find: Callable[..., list[str]]) -> None:
        with pytest.raises(RuntimeError), base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("a")])
            writer.commit()
            writer.put("sop", "e", "", "h", [chunk("b")])
            raise RuntimeError
        assert find("limit") == ["a"] and base.stats().documents == 1

    def test_rollback_by_hand(self, base: LocalBase) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("a")])
            writer.rollback()
            assert writer.documents("sop") == {}
        assert base.stats().generation == 0

    def test_close_does_not_commit(self, base: LocalBase) -> None:
        writer = base.writer()
        writer.put("sop", "d", "", "h", [chunk("a")])
        writer.close()
        writer.close()
        assert base.stats().documents == 0

    def test_after_a_failed_commit_the_next_goes_on(
        self, base: LocalBase, find: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with base.writer() as writer:
            writer.put("sop", "d", "", "h", [chunk("a")])
            with monkeypatch.context() as patch:
                patch.setattr(PartitionIndex, "stage", _broken)
                with pytest.raises(StoreError, match=r"cannot write to .*broken"):
                    writer.commit()
            writer.put("sop", "e", "", "h", [chunk("b")])
        assert set(find("limit")) == {"a", "b"}
        assert base.verify().ok and base.stats().generation == 2


class TestOneWriter:
    def test_a_second_is_refused_with_the_pid(self, base: LocalBase, folder: Path) -> None:
        with base.writer():
            with pytest.raises(StoreLocked, match=f"process {os.getpid()} .*writer.lock"):
                base.writer()
            with pytest.raises(StoreLocked):
                LocalBase(folder).rebuild()
        base.writer().close()

    def test_a_failed_opening_gives_the_lock_back(self, base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
        with monkeypatch.context() as patch:
            patch.setattr(IndexSync, "__init__", _broken)
            with pytest.raises(StoreError, match="broken"):
                base.writer()
        base.writer().close()


class TestIndexIsDerived:
    @pytest.fixture(autouse=True)
    def some(self, fill: Callable[..., None]) -> None:
        fill({"a": "limit one", "b": "limit two"}, metadata={"year": 1960})

    def test_rebuild_gives_the_same_answers(self, base: LocalBase, folder: Path) -> None:
        before = base.search("limit one", source_id="sop", top_k=5)
        base.rebuild()
        assert base.search("limit one", source_id="sop", top_k=5) == before
        assert base.stats().generation == 1 and base.verify().ok
        assert [path.name for path in folder.glob("index-*")] == ["index-2"]

    @pytest.mark.parametrize("damage", ["gone", "emptied", "garbled", "foreign"])
    def test_a_writer_rebuilds_what_it_cannot_use(
        self, base: LocalBase, folder: Path, tmp_path: Path, find: Callable[..., list[str]], damage: str
    ) -> None:
        base.close()
        meta = folder / "index-1" / "1" / "meta.json"
        if damage == "gone":
            (folder / "index-1").rename(tmp_path / "elsewhere")
        elif damage == "emptied":
            meta.unlink()
        elif damage == "garbled":
            meta.write_text("{")
        else:
            with LocalBase.open(tmp_path / "other", create=True):
                (folder / "index-1").rename(tmp_path / "elsewhere")
                (tmp_path / "other" / "index-1").rename(folder / "index-1")
        with pytest.raises(StoreError, match="context-engine kb rebuild"):
            find("limit")
        base.writer().close()
        assert set(find("limit")) == {"a", "b"} and base.verify().ok

    def test_a_database_from_before_the_index(
        self, base: LocalBase, folder: Path, find: Callable[..., list[str]]
    ) -> None:
        base.close()
        older = (folder / "base.sqlite3").read_bytes()
        with base.writer() as writer:
            writer.put("sop", "doc-c", "", "h", [chunk("c")])
        base.close()
        (folder / "base.sqlite3").write_bytes(older)
        assert set(find("limit")) == {"a", "b"}
        base.writer().close()
        assert set(find("limit")) == {"a", "b"} and base.verify().ok

    def test_an_interrupted_rebuild_leaves_the_old_index(
        self, base: LocalBase, folder: Path, find: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("context_engine.adapters.sources.local.schema.write_state", _broken)
            with pytest.raises(StoreError, match="broken"):
                base.rebuild()
        assert set(find("limit")) == {"a", "b"} and base.verify().ok
        base.writer().close()
        assert [path.name for path in folder.glob("index-*")] == ["index-1"]

    def test_an_index_commit_that_was_killed_is_made_again(
        self, base: LocalBase, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """Killed before it named its files in `meta.json`, it leaves one that the next commit gives the same name."""
        with monkeypatch.context() as patch, pytest.raises(StoreError, match="broken"), base.writer() as writer:
            patch.setattr(PartitionIndex, "stage", _broken)
            writer.put("sop", "doc-a", "", "h", [chunk("a", "limit three")])
        base.close()
        kept = {path: path.read_bytes() for path in (folder / "base.sqlite3", folder / "index-1" / "1" / "meta.json")}
        base.writer().close()
        base.close()
        (left,) = (folder / "index-1" / "1").glob("*.del")
        for path, content in kept.items():
            path.write_bytes(content)
        base.writer().close()
        assert left.exists() and base.verify().ok
        assert {found.content for found in base.search("limit", source_id="sop", top_k=9)} == {
            "limit two",
            "limit three",
        }

    def test_an_index_commit_that_failed_is_made_again(
        self, base: LocalBase, folder: Path, find: Callable[..., list[str]]
    ) -> None:
        """The same, in one writer: a folder stands where `meta.json` would be written."""
        meta = folder / "index-1" / "1" / "meta.json"
        with base.writer() as writer:
            writer.put("sop", "doc-c", "", "h", [chunk("c", "limit three")])
            writer.commit()
            writer.delete("sop", "doc-a", "")
            content = meta.read_bytes()
            meta.unlink()
            meta.mkdir()
            with pytest.raises(StoreError, match="cannot write to") as caught:
                writer.commit()
            meta.rmdir()
            meta.write_bytes(content)
            writer.put("sop", "doc-d", "", "h", [chunk("d", "limit four")])
        assert set(find("limit")) == {"b", "c", "d"} and base.verify().ok
        assert caught.tb is not None  # the frames of what failed still live: the lock must not hang on them

    def test_rebuilding_forgets_values_that_no_chunk_has(self, base: LocalBase, folder: Path) -> None:
        with base.writer() as writer:
            writer.delete("sop", "doc-a", "")
            writer.put("sop", "doc-b", "", "h", [chunk("b", metadata={"year": 1970})])
        base.rebuild()
        with sqlite3.connect(folder / "base.sqlite3") as connection:
            years = connection.execute("SELECT value FROM attributes WHERE name = 'year' AND value <> ''").fetchall()
        assert years == [("1970",)]


def _broken(*_: object, **__: object) -> None:
    raise OSError("broken")


def test_the_file_of_a_document_is_the_one_that_its_chunks_name(base: LocalBase) -> None:
    with base.writer() as writer:
        for name, metadata in (("named", {"source_file": "a/b.md"}), ("silent", {})):
            writer.put("sop", name, "", "1", [Chunk(content="x", chunk_id=name, metadata=metadata)])
        assert writer.file_of("sop", "named", "") == "a/b.md"
        for document in (("sop", "silent", ""), ("sop", "absent", ""), ("sop", "named", "2"), ("web", "named", "")):
            assert writer.file_of(*document) is None
