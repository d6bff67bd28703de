"""Four events of a search with their fields, and nobody's text in them."""

import logging

import pytest

from context_engine.adapters.rerankers import CallableReranker
from context_engine.core.context import ApproxTokenCounter
from context_engine.core.models import Score, ScoreKind, SearchRequest

RULE = "A proposal above the materiality limit goes to the product committee for approval."


STANDARD = {*vars(logging.LogRecord("", 0, "", 0, "", (), None)), "message"}


def events(caplog):
    found = {}
    for record in caplog.records:
        if record.name == "context_engine.events":
            found[record.getMessage()] = {name: value for name, value in vars(record).items() if name not in STANDARD}
    return found


@pytest.fixture
def engine(make_engine, chunk_of):
    reranker = CallableReranker(lambda _query, texts: [0.25, 0.75][: len(texts)])
    chunks = [chunk_of("a", 0.9, RULE), chunk_of("b", 0.6), chunk_of("c", 0.1)]
    cosine = chunk_of("d", content="An approval rule.", scores=(Score(ScoreKind.COSINE, 0.33333333, "e5"),))
    return make_engine([(2, chunks), (5, [cosine])], reranker=reranker)


def test_each_stage_has_its_event(engine, caplog):
    overrides = {"min_relevance_score": 0.5, "stage1_top_k": 7}
    with caplog.at_level(logging.INFO), engine:
        result = engine.search(SearchRequest(query="approval", domain="NPA", request_id="r-1", overrides=overrides))
        context = engine.context(result, counter=ApproxTokenCounter())
    found = events(caplog)
    of_search = {"request_id": "r-1", "search_id": result.search_id, "domain": "NPA"}
    assert all(of_search.items() <= fields.items() for fields in found.values())
    told = {name: {key: fields[key] for key in fields.keys() - of_search.keys()} for name, fields in found.items()}
    dropped = [fate for fate in result.fates if fate.stage == "relevance"]
    left = len(result.fates) - len(dropped)
    assert told == {
        "rag.retrieval": {
            "initial_top_k": 7,
            "chunks_retrieved": 4,
            "scores_range": {"cosine": [0.3333, 0.3333], "relevance": [0.1, 0.9]},
        },
        "rag.filter": {
            "chunks_after_filter": left,
            "threshold_used": 0.5,
            "scope_threshold": result.scope.value,
            "fallback_triggered": False,
            "filtered_scores": sorted((round(chunk.absolute, 4) for chunk in result.chunks), reverse=True),
            "removed_scores": sorted((round(fate.value, 4) for fate in dropped), reverse=True),
        },
        "rag.rerank": {
            "chunks_after_rerank": left,
            "reranker_type": "callable",
            "rerank_scores": sorted(result.rerank_scores.values(), reverse=True),
        },
        "rag.context": {
            "final_chunks_count": context.chunk_count,
            "context_size_chars": len(context.text),
            "context_tokens": context.tokens,
        },
    }
    assert 0.1 in told["rag.filter"]["removed_scores"]


def test_no_text_is_logged(engine, caplog):
    with caplog.at_level(logging.DEBUG), engine:
        engine.context(
            engine.search(SearchRequest(query="approval of novelties", domain="NPA")), counter=ApproxTokenCounter()
        )
    said = " ".join(str(vars(record)) for record in caplog.records)
    assert "novelties" not in said and "committee" not in said


def test_nothing_is_made_where_nobody_listens(engine, caplog):
    with caplog.at_level(logging.WARNING), engine:
        engine.search(SearchRequest(query="approval", domain="NPA"))
    assert events(caplog) == {}


def test_chunks_that_were_brought_back_are_a_fallback(make_engine, chunk_of, caplog):
    overrides = {"min_relevance_score": 0.9, "min_chunks": 1}
    with caplog.at_level(logging.INFO), make_engine([(2, [chunk_of("a", 0.5)])]) as engine:
        engine.search(SearchRequest(query="approval", domain="NPA", overrides=overrides))
    assert events(caplog)["rag.filter"]["fallback_triggered"] is True
