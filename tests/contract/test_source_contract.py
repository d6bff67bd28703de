"""The shipped conformance suite against the sources that are shipped, and against sources that break it."""

import pytest

from context_engine.adapters.sources.callable import CallableSource
from context_engine.core.models import Chunk, Score, ScoreKind, SourceAnswer, TermStatistics
from context_engine.testing import ScriptedSource, SourceContract

CHUNKS = [
    Chunk(
        content=f"The approval limit of level {level}.",
        chunk_id=f"c{level}",
        scores=(Score(ScoreKind.COSINE, 1 / level),),
    )
    for level in range(1, 6)
]


class TestScriptedSource(SourceContract):
    question = "approval limit"

    def make_source(self):
        return ScriptedSource("scripted", CHUNKS)


class TestCallableSource(SourceContract):
    question = "approval limit"

    def make_source(self):
        rows = [{"content": chunk.content, "chunk_id": chunk.chunk_id, "relevance_score": 0.9} for chunk in CHUNKS]
        return CallableSource(lambda query, domain, top_k: rows[:top_k], "rows")


class _Breaking(SourceContract):
    question = "approval limit"

    def __init__(self, source) -> None:
        self.source = source

    def make_source(self):
        return self.source


def _answering(chunks, kinds=frozenset(ScoreKind)):
    class Odd(ScriptedSource):
        def search(self, query):
            return SourceAnswer(chunks=chunks)

    return Odd("odd", score_kinds=kinds)


def _counting(chunks=5, **document_frequency):
    class Counting(ScriptedSource):
        def search(self, query):
            known = TermStatistics(collection="c", chunks=chunks, document_frequency=document_frequency)
            return SourceAnswer(chunks=CHUNKS[:4], statistics=known)

    return Counting("counting")


def test_a_source_may_say_how_common_the_terms_are():
    _Breaking(_counting(approv=5, limit=4)).test_term_statistics_count_the_question()


@pytest.mark.parametrize(
    ("check", "source"),
    [
        ("test_keeps_to_top_k", _answering(CHUNKS)),
        ("test_ids_are_stable_and_unique", _answering([CHUNKS[0], CHUNKS[0]])),
        ("test_best_first", _answering(CHUNKS[::-1])),
        ("test_scores_are_as_declared", _answering(CHUNKS, frozenset({ScoreKind.BM25}))),
        ("test_scores_are_as_declared", _answering([CHUNKS[0]._replace(scores=(Score(ScoreKind.COSINE, 12.4),))])),
        ("test_answers_with_chunks_that_have_text", _answering([CHUNKS[0], CHUNKS[1]._replace(content=" ")])),
        ("test_values_are_well_formed", _answering([CHUNKS[0]._replace(authority_tier=9)])),
        ("test_term_statistics_count_the_question", _counting(approv=5)),
        ("test_term_statistics_count_the_question", _counting(approv=5, limit=0)),
        ("test_term_statistics_count_the_question", _counting(approv=5, limit=6)),
        ("test_term_statistics_count_the_question", _counting(3, approv=3, limit=3)),
    ],
)
def test_a_source_that_breaks_the_contract_is_caught(check, source):
    with pytest.raises(AssertionError):
        getattr(_Breaking(source), check)()
