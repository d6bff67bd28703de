"""The ranking of rows for one question, whatever found them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from context_engine.adapters.sources.stores.options import SearchOptions
from context_engine.adapters.sources.stores.question import FoundRow, ScoredCollection, StoreEvidence, question_of
from context_engine.adapters.sources.stores.ranking import Ranker, Ranking, best_chunks
from context_engine.core.models import Chunk, ScoreKind

OPTIONS = SearchOptions(sibling_weight=0.0, neighbour_weight=0.0, keyword_weight=0.5, vector_weight=0.5)
QUESTION = question_of("approval limit", OPTIONS, [])
COLLECTION = ScoredCollection(10, 100, {"approv": 2, "limit": 5}, {})
BOTH, ONE = [
    FoundRow(rid, 0, rid, rid, words.split(), frozenset()) for rid, words in ((1, "approv limit"), (2, "limit board"))
]


def ranker(scorer_id: str = "m", options: SearchOptions = OPTIONS) -> Ranker:
    return Ranker(QUESTION, COLLECTION, options, by_text="store:1", scorer_id=scorer_id)


def test_texts_are_ranked_by_their_words() -> None:
    asked = ranker("")
    ranking = asked.by_text([ONE, BOTH], asked.texts([ONE, BOTH]), more=True)
    assert ranking.rids == [1, 2] and ranking.more
    assert [(score.kind, score.scorer) for score in ranking.scores(1)] == [(ScoreKind.BM25, "store:1")]


def test_text_and_vector_count_half_each() -> None:
    text, cosine = {1: 2.0, 2: 1.0}, {1: 0.2, 2: 0.9}
    ranking = ranker().by_both("notes", [BOTH, ONE], text, cosine, StoreEvidence(2.0, 1.0), [], more=False)
    assert ranking.rids == [2, 1]
    weighted, dense, own = ranking.scores(2)
    assert weighted.value == 0.5 * (1.0 / 2.0) + 0.5 * 0.9
    assert (dense.value, own.value) == (0.9, 1.0)
    assert weighted.scorer == "store:1:m"


def test_a_row_with_the_codes_comes_first() -> None:
    text, cosine = {1: 2.0, 2: 1.9}, {1: 0.2, 2: 0.9}
    ranking = ranker().by_both("notes", [BOTH, ONE], text, cosine, StoreEvidence(2.0, 1.0), ["approv"], more=False)
    assert ranking.rids == [1, 2]


def test_ranks_of_two_sources_do_not_compare() -> None:
    by_rank = ranker(options=OPTIONS.model_copy(update={"merge_method": "rrf"}))
    scores = by_rank.by_both("notes", [BOTH], {1: 2.0}, {1: 0.2}, StoreEvidence(2.0, 1.0), [], more=False).scores(1)
    assert scores[0].scorer == "store:1:m:notes"


def test_a_question_without_terms_scores_nothing() -> None:
    asked = Ranker(None, COLLECTION, OPTIONS, by_text="store:1", scorer_id="m")
    assert asked.texts([BOTH]) == {1: 0.0} and asked.look_ups == []
    assert asked.evidence([BOTH]) == StoreEvidence(0.0, 0.0)
    assert asked.statistics.document_frequency == {}


class Numbers(NamedTuple):
    key: str

    def test(self, chunk: Chunk) -> bool:
        return int(chunk.content) % 10 == 0


def test_a_source_is_searched_deeper_while_chunks_fail_its_test() -> None:
    pools = []

    def rank(sources: Sequence[Numbers], pool: int) -> Mapping[str, Ranking]:
        pools.append(pool)
        return {source.key: Ranking(list(range(1, pool + 1)), lambda _rid: (), pool < 100) for source in sources}

    chunks = best_chunks(rank, lambda rids: {rid: Chunk(content=str(rid)) for rid in rids}, [Numbers("a")], 3, 10)
    assert [chunk.content for chunk in chunks["a"]] == ["10", "20", "30"]
    assert pools == [10, 40]
