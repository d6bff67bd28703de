"""The embedded base says what made the vector of a question, and in what time."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from context_engine.adapters.sources.local import LocalBase, LocalSource
from context_engine.core.models import Chunk, SourceQuery
from context_engine.errors import EmbedderError
from context_engine.testing.fakes import FakeEmbedder

QUERY = SourceQuery(text="hotel limit", domain="HANDBOOK", top_k=3)


class Failing(FakeEmbedder):
    def embed_query(self, text: str) -> Sequence[float]:
        raise EmbedderError("out of order")


def write(folder: Path, embedder: FakeEmbedder | None = None) -> None:
    with LocalBase.open(folder, create=True, embedder=embedder) as base, base.writer() as writer:
        writer.put("handbook", "travel", "", "hash", [Chunk(content="The hotel limit.", chunk_id="1")])


def test_with_an_embedder(tmp_path: Path):
    write(tmp_path, FakeEmbedder(16))
    with LocalBase(tmp_path, embedder=FakeEmbedder(16)) as base:
        embedding = LocalSource(base, "handbook").search(QUERY).embedding
    assert embedding is not None
    assert embedding.model == "fake-16"
    assert embedding.elapsed_ms >= 0.0


def test_without_one_and_where_it_fails_there_is_none(tmp_path: Path):
    write(tmp_path, FakeEmbedder(16))
    with LocalBase(tmp_path) as base:
        assert LocalSource(base, "handbook").search(QUERY).embedding is None
    with LocalBase(tmp_path, embedder=Failing(16)) as base:
        answer = LocalSource(base, "handbook").search(QUERY)
    assert answer.chunks and answer.failures
    assert answer.embedding is None


def test_a_base_that_holds_no_vectors_is_searched_by_none(tmp_path: Path):
    write(tmp_path)
    with LocalBase(tmp_path, embedder=FakeEmbedder(16)) as base:
        answer = LocalSource(base, "handbook").search(QUERY)
    assert answer.chunks
    assert answer.embedding is None
