"""A commit or a rebuild in the very moment between a reader's snapshot and its look at the index."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase, reader
from context_engine.adapters.sources.local.writer import BaseWriter
from context_engine.core.models import Chunk, Condition, ScoreKind
from context_engine.errors import StoreError
from context_engine.testing.fakes import FakeEmbedder

Between = Callable[[Callable[[], object]], None]


@pytest.fixture
def base(folder: Path) -> Iterator[LocalBase]:
    with LocalBase.open(folder, create=True, embedder=FakeEmbedder(16)) as opened:
        with opened.writer() as writer:
            put(writer, "red")
        yield opened


@pytest.fixture
def between(monkeypatch: pytest.MonkeyPatch) -> Between:
    """Does something once, after the next search has taken its snapshot and before it looks at the index."""
    stamp = reader._stamp

    def arrange(act: Callable[[], object]) -> None:
        todo = [act]

        def late(path: Path) -> tuple[tuple[int, int, int], ...]:
            if todo:
                todo.pop()()
            return stamp(path)

        monkeypatch.setattr(reader, "_stamp", late)

    return arrange


def put(writer: BaseWriter, colour: str) -> None:
    chunk = Chunk(content=f"{colour} limit", chunk_id=colour, metadata={"colour": colour})
    writer.put("sop", colour, "", "h", [chunk])


def found(base: LocalBase, colour: str) -> list[Chunk]:
    return base.search("limit", source_id="sop", top_k=9, filters=Condition("colour", "eq", colour))


def test_a_filter_sees_the_values_of_a_commit_that_was_under_way(
    base: LocalBase, between: Between, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The rows are there, their values are not yet numbered when the snapshot is taken."""
    with base.writer() as writer:
        put(writer, "blue")
        follow = writer._index.follow
        with monkeypatch.context() as patch:
            patch.setattr(writer._index, "follow", lambda _state: None)
            state = writer._index.state
            writer.commit()
        between(lambda: follow(state._replace(generation=state.generation + 1)))
        for _ in range(2):
            assert [chunk.chunk_id for chunk in found(base, "blue")] == ["blue"]


def test_vectors_of_a_commit_are_there_with_its_rows(base: LocalBase, between: Between) -> None:
    with base.writer() as writer:
        put(writer, "blue")
        between(writer.commit)
        for _ in range(2):
            assert [chunk.score(ScoreKind.COSINE) is not None for chunk in found(base, "blue")] == [True]


def test_a_search_beside_a_rebuild_is_answered(base: LocalBase, between: Between) -> None:
    found(base, "red")
    writers: list[BaseWriter] = []
    between(lambda: writers.append(base._writer(rebuild=True)))
    assert [chunk.chunk_id for chunk in found(base, "red")] == ["red"]
    writers.pop().close()


def test_a_partition_that_is_gone(base: LocalBase) -> None:
    with pytest.raises(StoreError, match="no longer has partition 9"):
        base.best_of("limit", ["sop"], top_k=1, partition=9)


def test_commits_faster_than_a_search_leave_nothing_behind(base: LocalBase, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever is read while each look at the index finds another one is not kept for later searches."""
    stamp = reader._stamp
    colours = chain(("blue", "green", "white", "black"), map(str, count()))
    with base.writer() as writer:

        def late(path: Path) -> tuple[tuple[int, int, int], ...]:
            put(writer, next(colours))
            writer.commit()
            return stamp(path)

        with monkeypatch.context() as patch:
            patch.setattr(reader, "_stamp", late)
            found(base, "white")
        assert [chunk.score(ScoreKind.COSINE) is not None for chunk in found(base, "white")] == [True]


class Failing:
    """A connection whose first queries fail."""

    def __init__(self, *codes: int | None) -> None:
        self.codes, self.asked = list(codes), 0

    def execute(self, _statement: str) -> Failing:
        self.asked += 1
        if self.codes:
            error = sqlite3.OperationalError("no")
            code = self.codes.pop(0)
            if code is not None:
                error.sqlite_errorcode = code
            raise error
        return self

    def fetchone(self) -> tuple[int]:
        return (0,)


READONLY = sqlite3.SQLITE_READONLY


@pytest.mark.parametrize(
    ("codes", "asked", "waits"),
    [
        ((), 1, 0),
        ((READONLY,), 2, 1),
        ((READONLY | 5 << 8,), 2, 1),  # an extended code
        ((READONLY, READONLY, READONLY, READONLY), 3, 3),
        ((sqlite3.SQLITE_CORRUPT,), 1, 0),
        ((sqlite3.SQLITE_CANTOPEN,), 1, 0),
        ((None,), 1, 0),
    ],
)
def test_a_log_that_a_reader_may_not_create_is_awaited_three_times(
    codes: tuple[int | None, ...], asked: int, waits: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    slept: list[float] = []
    monkeypatch.setattr("time.sleep", slept.append)
    connection = Failing(*codes)
    reader._await_log(connection)  # type: ignore[arg-type]
    assert (connection.asked, slept) == (asked, [0.025] * waits)


def test_sixteen_sets_of_partitions_are_kept_open_and_those_of_a_former_index_are_not(tmp_path: Path) -> None:
    opened: Any = object()
    viewer = reader.Viewer(tmp_path, reader.Pool(tmp_path))
    for number in range(17):
        viewer._keep((1, (number,)), opened)
    assert [keys for _, keys in viewer._opened] == [(number,) for number in range(1, 17)]
    viewer._keep((2, (1,)), opened)
    assert list(viewer._opened) == [(2, (1,))]


@pytest.mark.parametrize(
    ("failures", "error", "changes", "looks"),
    [
        (19, PermissionError, False, 20),
        (20, PermissionError, False, None),
        (19, FileNotFoundError, True, 20),
        (20, FileNotFoundError, True, None),
        (1, FileNotFoundError, False, None),  # nothing has changed: it will not be there the next time either
        (1, ValueError, True, 2),
    ],
)
def test_an_index_is_looked_at_twenty_times_while_it_changes(
    failures: int,
    error: type[Exception],
    changes: bool,
    looks: int | None,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    seen: list[int] = []

    def opened_at(*_: object) -> Any:
        seen.append(1)
        if len(seen) <= failures:
            raise error
        return "opened"

    stamps = iter(range(1000))
    monkeypatch.setattr("time.sleep", lambda _: None)
    monkeypatch.setattr(reader, "_stamps", lambda _: next(stamps) if changes else 0)
    viewer = reader.Viewer(tmp_path, reader.Pool(tmp_path))
    monkeypatch.setattr(viewer, "_opened_at", opened_at)
    if looks is None:
        with pytest.raises(error):
            viewer._open((), "base")
        assert len(seen) in (1, 20)
    else:
        assert viewer._open((), "base") == "opened"
        assert len(seen) == looks


def test_another_base_put_in_the_place_of_the_folder_is_searched_at_once(base: LocalBase, folder: Path) -> None:
    other = folder.with_name("other")
    with LocalBase.open(other, create=True, embedder=FakeEmbedder(16)) as prepared, prepared.writer() as writer:
        put(writer, "blue")
    assert [chunk.chunk_id for chunk in found(base, "red")] == ["red"]
    folder.rename(folder.with_name("former"))
    other.rename(folder)
    assert [chunk.chunk_id for chunk in base.search("limit", source_id="sop", top_k=9)] == ["blue"]
    folder.rename(other)
    with pytest.raises(StoreError, match="there is no knowledge base in"):
        found(base, "blue")
