"""A commit or a rebuild in the very moment between a reader's snapshot and its look at the index."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import chain, count
from pathlib import Path

import pytest

from context_engine.adapters.sources.local import BaseWriter, LocalBase, reader
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
