"""Connections of readers: reused one after another, each in a snapshot, and gone after an error."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import LocalBase, reader
from context_engine.adapters.sources.local.reader import Pool
from context_engine.core.models import Chunk
from context_engine.errors import ContextEngineError, StoreError

Fill = Callable[..., None]


def chunks_in(connection: sqlite3.Connection) -> int:
    return int(connection.execute("SELECT count(*) FROM chunks").fetchone()[0])


def test_a_connection_is_used_again_when_its_search_is_over(base: LocalBase, fill: Fill, folder: Path) -> None:
    fill({"a": "Limits of the desk."})
    pool = Pool(folder)
    with pool.snapshot() as first:
        pass
    with pool.snapshot() as second, pool.snapshot() as beside:
        assert second is first
        assert beside is not first
    pool.close()
    with pytest.raises(sqlite3.ProgrammingError):
        first.execute("SELECT 1")


def test_a_snapshot_shows_one_moment(base: LocalBase, fill: Fill, folder: Path) -> None:
    fill({"a": "Limits of the desk."})
    pool = Pool(folder)
    with pool.snapshot() as connection:
        assert chunks_in(connection) == 1
        fill({"b": "Limits of the bank."})
        assert chunks_in(connection) == 1
    with pool.snapshot() as connection:
        assert chunks_in(connection) == 2
    pool.close()


def test_a_connection_in_which_something_failed_is_not_kept(base: LocalBase, fill: Fill, folder: Path) -> None:
    fill({"a": "Limits of the desk."})
    pool = Pool(folder)
    with pytest.raises(ValueError, match="stop"), pool.snapshot() as failed:
        raise ValueError("stop")
    with pool.snapshot() as connection:
        assert connection is not failed
    with pytest.raises(sqlite3.ProgrammingError):
        failed.execute("SELECT 1")
    pool.close()


def test_no_more_connections_stay_open_than_there_is_room_for(
    base: LocalBase, fill: Fill, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill({"a": "Limits of the desk."})
    monkeypatch.setattr(reader, "_MOST_IDLE", 2)
    pool = Pool(folder)
    with ExitStack() as searches:
        opened = [searches.enter_context(pool.snapshot()) for _ in range(3)]
    still = []
    for connection in opened:
        try:
            still.append(chunks_in(connection))
        except sqlite3.ProgrammingError:
            continue
    assert still == [1, 1]
    pool.close()


def test_a_connection_of_before_the_pool_was_closed_does_not_come_back(
    base: LocalBase, fill: Fill, folder: Path
) -> None:
    fill({"a": "Limits of the desk."})
    pool = Pool(folder)
    with pool.snapshot() as connection:
        pool.close()
        assert chunks_in(connection) == 1, "the search in progress ends as it began"
    with pytest.raises(sqlite3.ProgrammingError):
        connection.execute("SELECT 1")


def test_a_folder_without_a_base_is_named(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="nowhere"), Pool(tmp_path / "nowhere").snapshot():
        pass


def test_a_document_whose_writing_failed_leaves_nothing(base: LocalBase, fill: Fill) -> None:
    fill({"a": "Limits of the desk."})
    with pytest.raises(ContextEngineError), base.writer() as writer:
        writer.put("sop", "doc-b", "", "h", [Chunk(content="Limits of the bank.", chunk_id="b")])
        raise StoreError("the disk is full")
    assert [chunk.chunk_id for chunk in base.search("limits", source_id="sop", top_k=5)] == ["a"]
    assert [chunk.chunk_id for chunk in base.chunks("sop")] == ["a"]
