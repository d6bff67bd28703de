"""Async sources, rerankers, refiners and embedders in a search, as if they were plain."""

from __future__ import annotations

import asyncio

import pytest

from context_engine.adapters.embedders.asynchronous import AwaitedEmbedder, embedder_of
from context_engine.core.engine import Engine
from context_engine.core.models import (
    Chunk,
    DomainSpec,
    NoticeCode,
    Refinement,
    Registry,
    Score,
    ScoreKind,
    SearchRequest,
    Settings,
    SourceAnswer,
    SourceSpec,
)
from context_engine.errors import AllSourcesFailed, InvalidRequest
from context_engine.rag import retrieve
from context_engine.testing.fakes import FakeEmbedder
from context_engine.wiring.build import build_engine

ROWS = [
    {"content": "The committee approves the limit.", "chunk_id": "a", "relevance_score": 0.9},
    {"content": "Lunch is at noon.", "chunk_id": "b", "relevance_score": 0.8},
]


async def rows(_query, _domain, top_k):
    await asyncio.sleep(0)
    return ROWS[:top_k]


class Callable:
    async def __call__(self, query, domain, top_k):
        return await rows(query, domain, top_k)


class Searching:
    async def search(self, query, domain, top_k):
        return await rows(query, domain, top_k)


@pytest.mark.parametrize("adapter", [rows, Callable(), Searching(), Searching, lambda *asked: rows(*asked)])
def test_an_async_adapter_of_any_form_is_searched(adapter):
    assert [chunk["chunk_id"] for chunk in retrieve("limit", options={"adapter": adapter})] == ["a", "b"]


def test_an_async_adapter_that_hangs_costs_its_time_limit_and_no_later_search():
    calls = []

    async def hanging(_query, _domain, _top_k):
        calls.append(1)
        await asyncio.sleep(60 if len(calls) == 1 else 0)
        return ROWS

    options = {"adapter": hanging, "source_timeout_s": 0.05}
    with pytest.raises(AllSourcesFailed, match="no answer within"):
        retrieve("limit", options=options)
    assert len(retrieve("limit", options=options)) == 2


def test_an_async_generator_is_refused():
    async def yielding(_query, _domain, _top_k):
        yield ROWS[0]

    with pytest.raises(InvalidRequest, match="as an async generator: return them as a list"):
        retrieve("limit", options={"adapter": yielding})


class AsyncSource:
    score_kinds = frozenset({ScoreKind.RELEVANCE})
    source_id = "sops"

    def __init__(self):
        self.closed = False

    async def search(self, _query):
        chunks = [
            Chunk(content=row["content"], chunk_id=row["chunk_id"], scores=(Score(ScoreKind.RELEVANCE, 0.9),))
            for row in ROWS
        ]
        return SourceAnswer(chunks=chunks)

    async def close(self):
        self.closed = True


class AsyncReranker:
    name = "async"

    async def rerank(self, _query, chunks):
        return [1.0 if "Lunch" in chunk.content else 0.0 for chunk in chunks]


class AsyncRefiner:
    name = "async"

    async def refine(self, _query, _language):
        return Refinement("Who approves a limit?", ())


class Yielding:
    name = "yielding"

    async def rerank(self, _query, chunks):
        for _ in chunks:
            yield 0.5


def searched(reranker, **models):
    source = AsyncSource()
    spec = SourceSpec(id="sops", type="bank_sop", adapter="given")
    registry = Registry(domains={"NPA": DomainSpec(version=1, domain="NPA", sources=(spec,))})
    with Engine(registry, lambda _domain, _spec: source, reranker=reranker, **models) as engine:
        result = engine.search(SearchRequest(query="limit", domain="NPA", overrides={"rerank_weight": 0.0}))
    assert source.closed
    return result


def test_async_sources_rerankers_and_refiners_take_part_in_a_search():
    result = searched(AsyncReranker(), refiner=AsyncRefiner())
    assert result.chunks[0].chunk.chunk_id == "b"
    assert result.chunks[0].rerank_score == 1.0
    assert str(result.status) == "complete"


def test_a_reranker_that_yields_degrades_the_search_and_says_why():
    result = searched(Yielding())
    assert str(result.status) == "degraded"
    failure = next(notice for notice in result.notices if notice.code is NoticeCode.RERANK_FAILED)
    assert "async_generator" in str(failure.detail)


class AsyncEmbedder:
    def __init__(self):
        self._plain = FakeEmbedder()
        self.model_id, self.dimension = self._plain.model_id, self._plain.dimension

    async def embed_query(self, text):
        return self._plain.embed_query(text)

    async def embed_documents(self, texts):
        return self._plain.embed_documents(texts)


def test_an_async_embedder_gives_the_same_vectors():
    plain, asynchronous = FakeEmbedder(), embedder_of(AsyncEmbedder())
    assert isinstance(asynchronous, AwaitedEmbedder) and embedder_of(plain) is plain
    assert (asynchronous.model_id, asynchronous.dimension) == (plain.model_id, plain.dimension)
    assert asynchronous.embed_query("limit") == plain.embed_query("limit")
    assert asynchronous.embed_documents(["limit", "fee"]) == plain.embed_documents(["limit", "fee"])


class OverDicts:
    async def rerank(self, _query, chunks):
        return list(reversed(chunks))


def test_a_class_over_chunk_dicts_is_taken_where_a_reranker_is_passed():
    with build_engine(reranker=OverDicts, recorded=False) as engine:
        assert engine.reranker_name(Settings()) == "OverDicts"
