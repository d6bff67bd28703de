"""The ranking of rows for one question, whatever found them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.question import FoundRow, ScoredCollection, StoreEvidence, question_of
from context_engine.adapters.sources.stores.ranking import Ranking, RowRanker, best_chunks
from context_engine.core.models import Chunk, ScoreKind

OPTIONS = SearchOptions(sibling_weight=0.0, neighbour_weight=0.0, keyword_weight=0.5, vector_weight=0.5)
QUESTION = question_of("approval limit", OPTIONS, [])
COLLECTION = ScoredCollection(10, 100, {"approv": 2, "limit": 5}, {})
BOTH, ONE = [
    FoundRow(rid, 0, rid, rid, words.split(), frozenset()) for rid, words in ((1, "approv limit"), (2, "limit board"))
]


def ranker(by_vector: str = "m", options: SearchOptions = OPTIONS, codes: Sequence[str] = ()) -> RowRanker:
    return RowRanker(QUESTION, COLLECTION, options, by_text="store:1", by_vector=by_vector, codes=codes)


def test_texts_are_ranked_by_their_words() -> None:
    asked = ranker("")
    ranking = asked.of_text([ONE, BOTH], asked.text_scores([ONE, BOTH]), more=True)
    assert ranking.rows == [1, 2] and ranking.more
    assert [(score.kind, score.scorer) for score in ranking.scores(1)] == [(ScoreKind.BM25, "store:1")]


def test_text_and_vector_count_half_each() -> None:
    text, cosine = {1: 2.0, 2: 1.0}, {1: 0.2, 2: 0.9}
    ranking = ranker().of_both("notes", [BOTH, ONE], text, cosine, StoreEvidence(2.0, 1.0), more=False)
    assert ranking.rows == [2, 1]
    weighted, dense, own = ranking.scores(2)
    assert weighted.value == 0.5 * (1.0 / 2.0) + 0.5 * 0.9
    assert (dense.value, own.value) == (0.9, 1.0)
    assert weighted.scorer == "store:1:m"


def test_a_row_with_the_codes_comes_first() -> None:
    text, cosine = {1: 2.0, 2: 1.9}, {1: 0.2, 2: 0.9}
    ranking = ranker(codes=["approv"]).of_both("notes", [BOTH, ONE], text, cosine, StoreEvidence(2.0, 1.0), more=False)
    assert ranking.rows == [1, 2]


def test_ranks_of_two_sources_do_not_compare() -> None:
    by_rank = ranker(options=OPTIONS.model_copy(update={"merge_method": "rrf"}))
    scores = by_rank.of_both("notes", [BOTH], {1: 2.0}, {1: 0.2}, StoreEvidence(2.0, 1.0), more=False).scores(1)
    assert scores[0].scorer == "store:1:m:notes"


def test_a_question_without_terms_scores_nothing() -> None:
    asked = RowRanker(None, COLLECTION, OPTIONS, by_text="store:1")
    assert asked.text_scores([BOTH]) == {1: 0.0} and asked.look_ups == []
    assert asked.evidence([BOTH]) == StoreEvidence(0.0, 0.0)
    assert asked.statistics.document_frequency == {}


class Numbers(NamedTuple):
    source_id: str

    def test(self, chunk: Chunk) -> bool:
        return int(chunk.content) % 10 == 0


def test_a_source_is_searched_deeper_while_chunks_fail_its_test() -> None:
    pools = []

    def rank(sources: Sequence[Numbers], pool: int) -> Mapping[str, Ranking]:
        pools.append(pool)
        return {source.source_id: Ranking(list(range(1, pool + 1)), lambda _rid: (), pool < 100) for source in sources}

    def texts(rows: Sequence[int]) -> Mapping[int, Chunk]:
        return {row: Chunk(content=str(row)) for row in rows}

    chunks = best_chunks([Numbers("a")], rank, texts, top_k=3, pool=10, most=1_000)
    assert [chunk.content for chunk in chunks["a"]] == ["10", "20", "30"]
    assert pools == [10, 40]


def test_a_row_that_the_server_has_lost_since_it_was_ranked_is_left_out() -> None:
    def rank(sources: Sequence[Numbers], _pool: int) -> Mapping[str, Ranking]:
        return {source.source_id: Ranking([10, 20, 30], lambda _rid: (), False) for source in sources}

    def texts(rows: Sequence[int]) -> Mapping[int, Chunk]:
        return {row: Chunk(content=str(row)) for row in rows if row != 20}

    chunks = best_chunks([Numbers("a")], rank, texts, top_k=3, pool=10, most=1_000)
    assert [chunk.content for chunk in chunks["a"]] == ["10", "30"]
