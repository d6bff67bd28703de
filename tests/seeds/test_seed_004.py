"""Seed 004: rank fusion, merge methods, thresholds by method, out of scope."""

import pytest

from context_engine.core.models import Chunk, Decision, Score, ScoreKind
from context_engine.core.ranking.fusion import reciprocal_rank_fusion, weighted_fusion
from context_engine.core.ranking.relevance import normalise_pool

VECTOR, KEYWORD = ["Doc_A", "Doc_B", "Doc_C"], ["Doc_A", "Doc_C", "Doc_D"]


def test_E4_reciprocal_rank_fusion():
    scores = reciprocal_rank_fusion([VECTOR, KEYWORD], k=60)
    assert scores["Doc_A"] == 1 / 61 + 1 / 61
    assert scores["Doc_C"] == 1 / 63 + 1 / 62
    assert scores["Doc_B"] == 1 / 62
    assert scores["Doc_D"] == 1 / 63
    assert {name: f"{score:.4f}" for name, score in scores.items()} == {
        "Doc_A": "0.0328",
        "Doc_C": "0.0320",
        "Doc_B": "0.0161",
        "Doc_D": "0.0159",
    }


def test_E5_weighted_merge_with_the_seeds_weights():
    """HYBRID_VECTOR_WEIGHT 0.4, HYBRID_KEYWORD_WEIGHT 0.6."""
    merged = weighted_fusion([{"A": 1.0, "B": 0.5}, {"A": 0.5, "C": 1.0}], [0.4, 0.6])
    assert merged == {"A": 0.4 * 1.0 + 0.6 * 0.5, "B": 0.4 * 0.5, "C": 0.6 * 1.0}


def fused(text, name, score, kind=ScoreKind.RRF):
    return Chunk(content=text, chunk_id=name, scores=(Score(kind, score, "hybrid"),))


def test_E4_raw_fused_scores_never_enter_the_formula(ask):
    """Raw, 0.6 * 0.0328 = 0.0197 against a boost of 0.16: the tier alone would decide. Normalised it is relevance."""
    web = fused("The approval rule of the desk.", "web", 2 / 61)
    record = fused("Canteen approval hours.", "record", 1 / 75)
    result = ask([(1, [record]), (5, [web])])
    assert [chunk.chunk_id for chunk in result.chunks] == ["web", "record"]
    assert [chunk.relevance for chunk in result.chunks] == normalise_pool([2 / 61, 1 / 75])


@pytest.mark.parametrize(("kind", "scale", "minimum"), [(ScoreKind.RRF, 0.033, 0.005), (ScoreKind.WEIGHTED, 1.0, 0.3)])
def test_E7_thresholds_by_method(ask, kind, scale, minimum):
    """RRF runs from 0 to 0.033 with least 0.005, weighted from 0 to 1 with least 0.3."""
    chunks = [
        fused(f"The approval rule of desk {number}.", name, value, kind)
        for number, (name, value) in enumerate({"top": scale, "at": minimum, "below": minimum * 0.99}.items())
    ]
    result = ask([(2, chunks)], similarity_threshold=minimum, similarity_kind=str(kind), dedup_method="off")
    assert {chunk.chunk_id for chunk in result.chunks} == {"top", "at"}


def test_E7_005_never_refuses_an_rrf_score_before_rank_140():
    """1 / (60 + 140) = 0.005: why scope is not decided by it."""
    scores = reciprocal_rank_fusion([[f"d{rank}" for rank in range(1, 201)]])
    refused = [rank for rank in range(1, 201) if scores[f"d{rank}"] < 0.005]
    assert refused[0] == 141


def test_E8_out_of_scope(ask):
    """The best absolute signal is below the least relevance, however good the fused rank."""
    page = fused("Parking and canteen hours.", "page", 2 / 61)
    result = ask([(2, [page])], query="approval limit for derivatives")
    assert (result.decision, result.chunks) == (Decision.OUT_OF_SCOPE, ())
    answered = ask([(2, [page])], query="canteen hours")
    assert answered.decision is Decision.ANSWERED
