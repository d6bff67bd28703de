"""A chunk that was read for one search is as good as new for the next."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.adapters.sources.local import view as row_chunks
from context_engine.core.engine import Engine
from context_engine.core.models import (
    Chunk,
    DomainSpec,
    Registry,
    Score,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    SourceSpec,
    SourceType,
)

TEXT = "The settlement desk reports every breach of its limit before noon."
QUERY = "who reports a breach of the limit"
Fill = Callable[..., None]


def searched(source: Any, text: str = QUERY) -> SearchResult:
    registry = Registry(
        domains={"NPA": DomainSpec(version=1, domain="NPA", sources=(SourceSpec(id="sop", type=SourceType.BANK_SOP),))}
    )
    with Engine(registry, lambda _domain, _spec: source) as engine:
        return engine.search(SearchRequest(query=text, domain="NPA"))


def test_what_is_done_to_a_found_chunk_changes_no_later_search(base: LocalBase, fill: Fill) -> None:
    fill({"a": TEXT}, metadata={"owner": "risk", "tags": ["limit", {"kind": "breach"}]}, extra={"seen": [1]})
    first = base.search(QUERY, source_id="sop", top_k=5)[0]
    first.metadata["owner"] = "nobody"  # type: ignore[index]
    first.metadata["tags"][1]["kind"] = "gone"
    first.extra.clear()  # type: ignore[attr-defined]
    again = base.search(QUERY, source_id="sop", top_k=5)[0]
    assert again.metadata == {"owner": "risk", "tags": ["limit", {"kind": "breach"}]}


def test_what_was_replaced_or_removed_is_not_found_again(
    base: LocalBase, fill: Fill, find: Callable[..., list[str]]
) -> None:
    fill({"a": TEXT, "b": f"{TEXT} So does custody."})
    assert find(QUERY) == find(QUERY) == ["a", "b"]
    fill({"a": TEXT.replace("noon", "midnight")})
    with base.writer() as writer:
        writer.delete("sop", "doc-b", "")
    (left,) = base.search(QUERY, source_id="sop", top_k=5)
    assert left.content == TEXT.replace("noon", "midnight")


def test_what_was_changed_in_a_chunk_is_said_by_every_search(base: LocalBase, fill: Fill) -> None:
    deep: Any = "core"
    for _ in range(40):
        deep = [deep]
    fill({"a": TEXT}, metadata={"deep": deep})
    source = LocalSource(base, "sop")
    for _ in range(2):
        result = searched(source)
        assert [(one.code, one.detail["chunk_id"]) for one in result.notices if one.detail.get("chunk_id")] == [
            ("metadata_repaired", "a")
        ]


def test_no_more_are_kept_than_there_is_room_for(
    base: LocalBase, fill: Fill, find: Callable[..., list[str]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(row_chunks, "_MOST_KEPT", 3)
    monkeypatch.setattr(row_chunks, "_LONG", 70)
    fill({"a": TEXT, "b": f"{TEXT} So does custody.", "c": "Gifts are refused.", "d": "Gifts of clients are reported."})
    for text in (QUERY, "gifts of clients", QUERY, "gifts"):
        with base._viewer.view() as view:
            before = dict(view.chunks)
        found = find(text)
        with base._viewer.view() as view:
            assert len(view.chunks) <= 3
            assert all(len(one.chunk.content) < 70 for one in view.chunks.values())
            assert before or view.chunks
        assert find(text) == found


class Vouching:
    """A source whose chunks are valid, it says; its scores are looked at all the same."""

    source_id, valid_chunks = "sop", True
    score_kinds = frozenset(ScoreKind)

    def search(self, query: SourceQuery) -> SourceAnswer:
        scores = (Score(ScoreKind.COSINE, 7.0, "m"), Score(ScoreKind.RELEVANCE, 0.5))
        return SourceAnswer(chunks=[Chunk(content=TEXT, chunk_id="a", scores=scores)])

    def close(self) -> None:
        pass


def test_scores_of_valid_chunks_are_validated() -> None:
    (chunk,) = searched(Vouching()).chunks
    assert chunk.chunk.scores == (Score(ScoreKind.RELEVANCE, 0.5),)
