"""A view: which rows live in it, and what it keeps of them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase, view
from context_engine.adapters.sources.local.view import RowChunk, View, _batches, _can_be_stored, chunks_of_rows
from context_engine.core.models import Chunk

Fill = Callable[..., None]


def of(base: LocalBase, **fields: Any) -> View:
    with base._viewer.view() as opened:
        return opened._replace(**fields)


@pytest.mark.parametrize(
    ("partition", "generation", "removed", "holds"),
    [
        (1, 5, None, True),
        (1, 5, 5, False),
        (1, 5, 6, True),
        (1, 6, None, False),  # the index of partition 1 has not come to commit 6
        (2, 6, None, True),
        (2, 7, None, True),
        (2, 8, None, False),
        (2, 6, 7, False),
        (2, 6, 8, True),
    ],
)
def test_a_row_lives_from_its_commit_until_the_one_that_removes_it(
    base: LocalBase, fill: Fill, partition: int, generation: int, removed: int | None, holds: bool
) -> None:
    """Partition 1 is indexed up to commit 5, all others up to 7."""
    fill({"a": "x"})
    opened = of(base, behind={1: 5})
    opened = opened._replace(state=opened.state._replace(generation=7))
    assert opened.holds(partition, generation, removed) is holds
    assert opened.held == 5
    assert opened._replace(behind={}).held == 7


def test_a_value_is_found_once_for_each_key(base: LocalBase, fill: Fill) -> None:
    fill({"a": "x"})
    opened, calls = of(base), []
    for key in ("a", "b", "a"):
        assert opened.once(key, lambda key=key: calls.append(key) or len(calls)) == (2 if key == "b" else 1)
    assert calls == ["a", "b"]


def test_chunks_of_fewer_than_4000_characters_are_kept(base: LocalBase, fill: Fill) -> None:
    fill({"short": "x" * 3999, "long": "x" * 4000})
    with base._viewer.view() as opened:
        rids = [rid for (rid,) in opened.connection.execute("SELECT rid FROM chunks ORDER BY rid")]
        assert list(chunks_of_rows(opened, rids)) == rids
        assert list(opened.chunks) == rids[:1]
        assert chunks_of_rows(opened, rids)[rids[0]] is opened.chunks[rids[0]]


@pytest.mark.parametrize(("before", "after"), [(9_998, 10_000), (9_999, 2)])
def test_10000_chunks_are_kept_and_then_dropped_together(base: LocalBase, fill: Fill, before: int, after: int) -> None:
    fill({"a": "x", "b": "y"})
    kept: Any = dict.fromkeys(range(-before, 0))
    with base._viewer.view() as opened:
        rids = [rid for (rid,) in opened.connection.execute("SELECT rid FROM chunks")]
        chunks_of_rows(opened._replace(chunks=kept), rids)
    assert len(kept) == after


def test_900_values_are_asked_for_at_once(base: LocalBase, fill: Fill, monkeypatch: pytest.MonkeyPatch) -> None:
    fill({"a": "x"})
    assert [len(batch) for batch in _batches([""] * 1801)] == [900, 900, 1]
    read: list[int] = []
    monkeypatch.setattr(view, "_read", lambda _view, rids: read.append(len(rids)) or {})
    assert chunks_of_rows(of(base, chunks={}), range(901)) == {}
    assert read == [900, 1]


@pytest.mark.parametrize(("text", "can"), [("", True), ("a\ud7ff\ue000", True), ("\ud800", False), ("a\udfffb", False)])
def test_halves_of_a_surrogate_pair_cannot_be_stored(text: str, can: bool) -> None:
    assert _can_be_stored(text) is can


@pytest.mark.parametrize("metadata", [{"list": [1]}, {"mapping": {"a": 1}}, {"text": "a"}, {}])
def test_what_is_done_to_a_chunk_that_was_found_does_not_change_the_kept_one(metadata: dict[str, Any]) -> None:
    kept = RowChunk(Chunk(content="x", chunk_id="a", metadata=metadata))
    found: Any = kept.scored(())
    assert found.metadata == kept.chunk.metadata == metadata
    for value in found.metadata.values():
        if isinstance(value, list):
            value.append(2)
        elif isinstance(value, dict):
            value["b"] = 2
    if metadata:
        found.metadata["more"] = 1
    assert kept.scored(()).metadata == kept.chunk.metadata
    assert "more" not in kept.chunk.metadata and str(2) not in str(kept.chunk.metadata)
