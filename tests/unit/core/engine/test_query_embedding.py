"""What a source says of the vector of a question: told of the source, never part of what is compared or published."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from context_engine.core.engine import recompute, stage_two_bytes
from context_engine.core.engine.admission import validate_answer
from context_engine.core.models import Chunk, QueryEmbedding, SearchResult, SourceAnswer, SourceQuery

Ask = Callable[..., SearchResult]


class Embedding:
    """Answers with chunks and the vector of each call in turn."""

    score_kinds: frozenset[Any] = frozenset()

    def __init__(self, chunks: list[Chunk], *embeddings: QueryEmbedding | None) -> None:
        self.source_id = "t1"
        self._chunks, self._embeddings = chunks, list(embeddings)

    def search(self, query: SourceQuery) -> SourceAnswer:
        return SourceAnswer(chunks=self._chunks[: query.top_k], embedding=self._embeddings.pop(0))

    def close(self) -> None:
        pass


def test_it_stands_in_the_status_of_the_source(ask: Ask, chunk_of: Any):
    result = ask([(1, Embedding([chunk_of("a", 0.9)], QueryEmbedding("model-a", 4.5)))])
    assert result.sources[0].embedding == QueryEmbedding("model-a", 4.5)
    assert "embedding" not in result.sources[0].to_dict()
    assert result == replace(result, sources=(replace(result.sources[0], embedding=None),))


def test_of_two_calls_the_times_are_added(ask: Ask, chunk_of: Any):
    """One chunk of a document is allowed and a second is wanted, so the source is asked for more: 4.5 + 0.25 ms."""
    chunks = [chunk_of(name, 0.9, document_id="one") for name in "abcdefgh"]
    source = Embedding(chunks, QueryEmbedding("model-a", 4.5), QueryEmbedding("model-a", 0.25))
    result = ask([(1, source)], max_per_document=1, stage1_top_k=2, stage2_top_k=2)
    assert result.sources[0].asked > 2
    assert result.sources[0].embedding == QueryEmbedding("model-a", 4.75)


@pytest.mark.parametrize(
    "said",
    [
        ("model-a", 4.5),
        QueryEmbedding("", 4.5),
        QueryEmbedding("model\ud800", 4.5),
        QueryEmbedding("model-a", float("nan")),
        QueryEmbedding("model-a", -1.0),
        QueryEmbedding("model-a", 1e12),
        QueryEmbedding("model-a", True),
        QueryEmbedding(7, 4.5),  # type: ignore[arg-type]
        "model-a",
    ],
)
def test_what_cannot_be_one_counts_as_not_known(said: Any):
    assert validate_answer(SourceAnswer(embedding=said), source_id="a", top_k=1).embedding is None


def test_the_relevance_of_stage_one_comes_out_again(ask: Ask, chunk_of: Any):
    from context_engine.testing.fakes import FakeReranker

    chunks = [chunk_of("a", 0.9), chunk_of("b", 0.5)]
    result = ask([(1, chunks)], engine={"reranker": FakeReranker({chunks[1].content: 1.0})})
    assert {chunk.chunk_id: chunk.recalled for chunk in result.chunks} == {"a": 0.9, "b": 0.5}
    again = recompute(result)
    assert [chunk.recalled for chunk in again.chunks] == [chunk.recalled for chunk in result.chunks]
    assert stage_two_bytes(again) == stage_two_bytes(result)
