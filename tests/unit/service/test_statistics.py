"""A search in numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from context_engine.core.models import QueryEmbedding, SearchResult, StageTrace
from context_engine.service.response import embedding_model, statistics_of, thresholds_of
from context_engine.testing.fakes import FakeReranker

Ask = Callable[..., SearchResult]


def test_counts_and_scores(ask: Ask, chunk_of: Any):
    """Tier 1 has boost 0.40, tier 5 none: 0.6 * 0.9 + 0.4 * 0.4 = 0.70 and 0.6 * 0.5 = 0.30; their mean is 0.50.

    Of three candidates one is below min_relevance_score 0.15.
    """
    result = ask([(1, [chunk_of("a", 0.9), chunk_of("low", 0.05)]), (5, [chunk_of("b", 0.5)])])
    told = statistics_of(result, asked=None, total_ms=12.3456)
    assert (told.total_retrieved, told.total_reranked, told.total_returned) == (3, 0, 2)
    assert told.top_score == pytest.approx(0.70)
    assert told.average_score == pytest.approx(0.50)
    assert told.namespaces_searched == ("t1", "t5")
    assert told.total_time_ms == 12.346


def test_what_was_reranked_is_counted(ask: Ask, chunk_of: Any):
    chunks = [chunk_of("a", 0.9), chunk_of("b", 0.5), chunk_of("c", 0.4)]
    engine = {"reranker": FakeReranker({chunks[0].content: 1.0})}
    told = statistics_of(ask([(1, chunks)], engine=engine, rerank_top_n=2), asked=None, total_ms=0.0)
    assert (told.total_retrieved, told.total_reranked, told.total_returned) == (3, 2, 3)


def test_without_chunks_there_are_no_scores(ask: Ask):
    told = statistics_of(ask([(1, [])]), asked=None, total_ms=0.0)
    assert (told.top_score, told.average_score, told.total_returned) == (None, None, 0)
    assert told.namespaces_searched == ("t1",), "an empty answer is an answer"


def test_a_source_that_failed_was_not_searched(ask: Ask, chunk_of: Any):
    def down(*_: Any) -> Any:
        raise OSError("down")

    assert statistics_of(ask([(1, [chunk_of("a", 0.9)]), (2, down)]), asked=None, total_ms=0.0).namespaces_searched == (
        "t1",
    )


def test_the_vector_and_the_search_are_timed_apart(ask: Ask, chunk_of: Any):
    """Two sources wait for one vector, 4 and 5 ms; stage 1 took 20 ms: 5 of them for the vector, 15 for the search."""
    result = ask([(1, [chunk_of("a", 0.9)]), (2, [chunk_of("b", 0.5)])])
    sources = tuple(
        replace(one, embedding=QueryEmbedding("model-a", 4.0 + place)) for place, one in enumerate(result.sources)
    )
    stages = (StageTrace("recall", 2, 2, 20.0), StageTrace("rerank", 2, 2, 7.5))
    timed = replace(result, sources=sources, stages=stages)
    told = statistics_of(timed, asked=None, total_ms=40.0)
    assert (told.embedding_time_ms, told.search_time_ms, told.rerank_time_ms) == (5.0, 15.0, 7.5)
    assert embedding_model(timed) == "model-a"
    assert embedding_model(result) is None


def test_thresholds_are_those_in_force(ask: Ask, chunk_of: Any):
    settings = {"stage2_top_k": 3, "min_chunks": 1, "reranking_enabled": False, "sources": ("t1",)}
    told = thresholds_of(ask([(1, [chunk_of("a", 0.9)])], **settings))
    assert told.model_dump() == {
        "similarity_threshold": None,
        "max_results": 3,
        "min_results": 1,
        "rerank": False,
        "namespaces": ("t1",),
    }
