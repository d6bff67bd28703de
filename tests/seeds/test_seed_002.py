"""Seed 002: the second-stage filter, the reranker interface, the order of operations."""

import json
import logging
import re

import pytest

from context_engine.adapters.rerankers import CallableReranker, NoOpReranker
from context_engine.core.context import ApproxTokenCounter
from context_engine.core.models import Outcome, SearchRequest
from context_engine.core.ranking.select import filter_by_similarity
from context_engine.service.comparing import compare
from context_engine.service.contract.comparison import ComparisonAnswer

CHUNKS = [{"content": f"chunk {score}", "score": score, "source": "s"} for score in (0.85, 0.82, 0.78, 0.75, 0.72)]


def test_C1_similarity_filter():
    kept, report = filter_by_similarity(CHUNKS, 0.75, 2)
    assert [chunk["score"] for chunk in kept] == [0.85, 0.82, 0.78, 0.75]
    assert report == {
        "original_count": 5,
        "filtered_count": 4,
        "fallback_triggered": False,
        "scores": [0.85, 0.82, 0.78, 0.75],
    }


@pytest.mark.parametrize(("threshold", "kept"), [(0.0, 5), (0.72, 5), (0.73, 4), (0.78, 3), (0.83, 1)])
def test_C1_the_threshold_changes_how_many_stay(threshold, kept):
    assert len(filter_by_similarity(CHUNKS, threshold, 0)[0]) == kept


def test_C2_fallback_when_the_threshold_is_too_high(caplog):
    caplog.set_level(logging.INFO)
    kept, report = filter_by_similarity(CHUNKS, 0.99, 2)
    assert [chunk["score"] for chunk in kept] == [0.85, 0.82]
    assert report["fallback_triggered"] is True
    assert "kept by min_chunks" in caplog.text


def test_C2_fallback_in_the_engine_is_marked_and_in_the_log(ask, chunk_of, caplog):
    caplog.set_level(logging.INFO)
    chunks = [chunk_of("good", 0.9), chunk_of("weak", 0.2), chunk_of("weaker", 0.1)]
    result = ask([(2, chunks)], min_relevance_score=0.5, min_chunks=2)
    assert [(chunk.chunk_id, "below_threshold" in chunk.flags) for chunk in result.chunks] == [
        ("good", False),
        ("weak", True),
    ]
    assert "fallback=True" in caplog.text


def test_C3_scores_and_metadata_are_preserved():
    kept, _ = filter_by_similarity(CHUNKS, 0.8, 0)
    assert kept == CHUNKS[:2]


def test_C4_defaults_pass_everything():
    assert filter_by_similarity(CHUNKS)[0] == CHUNKS


def test_C5_C6_no_reranker_by_default_and_the_no_op_changes_nothing(ask, chunk_of):
    sources = [(2, [chunk_of("a", 0.8), chunk_of("b", 0.7)])]
    bare, no_op = ask(sources), ask(sources, engine={"reranker": NoOpReranker()})
    assert bare.chunks == no_op.chunks
    assert NoOpReranker().rerank("query", [chunk_of("a")]) is None


def test_C7_order_retrieve_filter_rerank_truncate(ask, chunk_of):
    result = ask([(2, [chunk_of("a", 0.8)])])
    names = [stage.name for stage in result.stages]
    assert [name for name in names if name in ("recall", "scope", "rerank", "select")] == [
        "recall",
        "scope",
        "rerank",
        "select",
    ]


def test_C8_score_kept_rerank_score_added(ask):
    given = [
        {"content": f"An approval rule about {name}.", "chunk_id": name, "score": score, "score_kind": "cosine"}
        for name, score in (("alpha", 0.8), ("beta", 0.7))
    ]
    reranker = CallableReranker(lambda _query, texts: [1.0 if "beta" in text else 0.0 for text in texts])
    result = ask([(2, lambda _query, _domain, _top_k: given)], engine={"reranker": reranker})
    out = {chunk.chunk_id: chunk.to_dict() for chunk in result.chunks}
    assert [chunk.chunk_id for chunk in result.chunks] == ["beta", "alpha"]
    assert (out["beta"]["score"], out["beta"]["rerank_score"]) == (0.7, 1.0)
    assert (out["alpha"]["score"], out["alpha"]["rerank_score"]) == (0.8, 0.0)
    assert [chunk["chunk_id"] for chunk in given] == ["alpha", "beta"], "the order before reranking is the source's own"


def test_C10_reranking_adds_no_chunks(ask, chunk_of):
    sources = [(2, [chunk_of(f"c{number}", 0.5, f"Rule {number * 7} stands.") for number in range(5)])]
    reranker = CallableReranker(lambda _query, texts: [0.9] * len(texts))
    result = ask(sources, engine={"reranker": reranker})
    assert len(result.chunks) == len(ask(sources).chunks) == 5
    assert {one.outcome for one in result.fates} == {Outcome.RETURNED}


def test_C13_one_log_line_in_the_seeds_format(ask, chunk_of, caplog):
    caplog.set_level(logging.INFO)
    ask([(2, [chunk_of("a", 0.8), chunk_of("b", 0.7), chunk_of("c", 0.1)])], request_id="r-1", stage2_top_k=1)
    assert re.search(
        r"RAG pipeline request_id=r-1 initial_k=3 filtered_k=2 final_k=1 threshold=0\.150 fallback=False reranker=noop "
        r"scores_range=\[0\.800,0\.800\]",
        caplog.text,
    )


def test_C11_the_designed_shape_of_a_comparison(ask, chunk_of):
    chunks = [chunk_of(f"c{number}", score) for number, score in enumerate((0.85, 0.82, 0.78, 0.75, 0.72))]
    compared = compare(ask([(2, chunks)], min_relevance_score=0.78))
    said = json.loads(ComparisonAnswer(data=compared).model_dump_json())
    baseline, enhanced = said["data"]["baseline"], said["data"]["enhanced"]
    assert said["success"] is True
    assert {name: baseline[name] for name in ("choices", "chunks_used", "chunks_scores")} == {
        "choices": [],
        "chunks_used": 5,
        "chunks_scores": [0.85, 0.82, 0.78, 0.75, 0.72],
    }
    names = ("choices", "chunks_used", "chunks_scores", "filter_threshold", "reranker_enabled")
    assert {name: enhanced[name] for name in names} == {
        "choices": [],
        "chunks_used": 3,
        "chunks_scores": [0.85, 0.82, 0.78],
        "filter_threshold": 0.78,
        "reranker_enabled": False,
    }


def test_C13_four_events_with_the_seeds_fields(make_engine, chunk_of, caplog):
    caplog.set_level(logging.INFO)
    with make_engine([(2, [chunk_of("a", 0.8), chunk_of("b", 0.7), chunk_of("c", 0.1)])]) as engine:
        result = engine.search(SearchRequest(query="approval rule", domain="NPA", request_id="r-1"))
        context = engine.context(result, counter=ApproxTokenCounter())
    told = {one.getMessage(): vars(one) for one in caplog.records if one.name == "context_engine.events"}
    wanted = {
        "rag.retrieval": {
            "initial_top_k": 40,
            "chunks_retrieved": 3,
            "scores_range": {"relevance": [0.1, 0.8]},
        },
        "rag.filter": {
            "chunks_after_filter": 2,
            "threshold_used": 0.15,
            "fallback_triggered": False,
            "filtered_scores": [0.8, 0.7],
        },
        "rag.rerank": {"chunks_after_rerank": 2, "reranker_type": "noop", "rerank_scores": []},
        "rag.context": {"final_chunks_count": 2, "context_size_chars": len(context.text)},
    }
    assert list(told) == list(wanted)
    for event, fields in wanted.items():
        assert {name: told[event][name] for name in fields} == fields
        assert (told[event]["request_id"], told[event]["search_id"]) == ("r-1", result.search_id)


def test_C14_with_the_filter_off_everything_passes_in_the_order_of_its_score(ask, chunk_of):
    scores = {"a": 0.85, "b": 0.3, "c": 0.01, "d": 0.0}
    chunks = [chunk_of(name, score) for name, score in scores.items()]
    result = ask([(2, chunks)], min_relevance_score=0.0, min_chunks=2, reranking_enabled=False)
    assert [chunk.chunk_id for chunk in result.chunks] == ["a", "b", "c", "d"]
