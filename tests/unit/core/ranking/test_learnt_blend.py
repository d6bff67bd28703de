"""A learnt blend: its features, what it adds, when it says nothing, and the relevance it gives."""

from __future__ import annotations

import random
from datetime import date
from math import log
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from context_engine.core.models import BlendTerm, LearntBlend, Score, ScoreKind
from context_engine.core.ranking.learnt_blend import (
    BlendPool,
    blend_scores,
    contributions,
    features,
    relevance_of,
    why_not,
)


def pool_of(relevance: list[float], **given: Any) -> BlendPool:
    size = len(relevance)
    held: dict[str, Any] = {
        "keys": [("sops", f"c{place}") for place in range(size)],
        "measured_by": "weighted",
        "relevance": relevance,
        "text": [0.5] * size,
        "coverage": [0.25] * size,
        "documents": [None] * size,
        "words": [9] * size,
        "cosines": [None] * size,
        "reranker": "noop",
        "reranked": [None] * size,
    }
    return BlendPool(**{**held, **given})


def cosines(*values: float, scorer: str = "mini") -> list[Score]:
    return [Score(ScoreKind.COSINE, value, scorer) for value in values]


def blend(**given: Any) -> LearntBlend:
    terms = {"stage1": BlendTerm(weight=2.0, mean=0.5, deviation=0.25)}
    return LearntBlend(**{"measured_by": "weighted", "terms": terms, **given})


RANK = {"cosine_rank": BlendTerm(weight=1.0, mean=0.0, deviation=1.0)}
COSINE = {"cosine": BlendTerm(weight=1.5, mean=0.4, deviation=0.1)}
MODEL = {"reranker": BlendTerm(weight=0.5, mean=0.5, deviation=0.2)}


def test_features_are_numbers_of_the_candidate_and_of_its_place_in_the_pool() -> None:
    pool = pool_of(
        [1.0, 0.5, 0.5, 0.0],
        text=[0.2, 1.0, 0.6, 0.6],
        coverage=[0.1, 0.9, 0.4, 0.4],
        words=[0, 9, 99, 9],
        cosines=cosines(0.7, 0.3, 0.5, 0.1),
        reranked=[0.9, 0.1, 0.4, 0.4],
    )
    assert features(pool) == {
        "stage1": [1.0, 0.5, 0.5, 0.0],
        "stage1_rank": [1.0, 1 / 2, 1 / 2, 1 / 4],
        "text": [0.2, 1.0, 0.6, 0.6],
        "text_rank": [1 / 4, 1.0, 1 / 2, 1 / 2],
        "coverage": [0.1, 0.9, 0.4, 0.4],
        "cosine": [0.7, 0.3, 0.5, 0.1],
        "cosine_rank": [1.0, 1 / 3, 1 / 2, 1 / 4],
        "reranker": [0.9, 0.1, 0.4, 0.4],
        "reranker_rank": [1.0, 1 / 4, 1 / 2, 1 / 2],
        "document": [0.0] * 4,
        "document_best": [0.0] * 4,
        "length": [0.0, log(10), log(100), log(10)],
        "length_squared": [0.0, log(10) ** 2, log(100) ** 2, log(10) ** 2],
    }


def test_a_score_that_some_candidate_lacks_is_no_feature() -> None:
    found = features(pool_of([1.0, 0.5], cosines=[*cosines(0.7), None], reranked=[0.5, None]))
    assert not found.keys() & {"cosine", "cosine_rank", "reranker", "reranker_rank"}


def test_what_the_other_candidates_of_a_document_have() -> None:
    one, two = ("sops", "ONE"), ("sops", "TWO")
    found = features(pool_of([1.0, 0.5, 0.25, 0.25], documents=[one, one, one, None]))
    assert found["document"] == [0.75 / 2.0, 1.25 / 2.0, 1.5 / 2.0, 0.0]
    assert found["document_best"] == [0.5, 1.0, 1.0, 0.0]
    alone = features(pool_of([1.0, 1.0, 1.0], documents=[one, one, two]))
    assert (alone["document"], alone["document_best"]) == ([1 / 3, 1 / 3, 0.0], [1.0, 1.0, 0.0])


ROW = st.tuples(*(st.floats(0.0, 1.0, width=16) for _ in range(4)), st.sampled_from(["A", "B", None]))


@given(st.lists(ROW, min_size=2, max_size=8), st.randoms(use_true_random=False))
def test_the_order_of_the_candidates_does_not_matter(rows: list[Any], chance: random.Random) -> None:
    def scores(some: list[Any]) -> list[float]:
        relevance, text, cosine, model, documents = zip(*some)
        pool = pool_of(
            list(relevance),
            text=list(text),
            cosines=cosines(*cosine),
            reranked=list(model),
            documents=[None if one is None else ("sops", one) for one in documents],
        )
        columns = features(pool)
        terms = {name: BlendTerm(weight=0.5, mean=0.1, deviation=0.2) for name in columns}
        return blend_scores(blend(terms=terms, cosine="mini", reranker="noop"), columns)

    turned = list(range(len(rows)))
    chance.shuffle(turned)
    before, after = scores(rows), scores([rows[place] for place in turned])
    assert after == pytest.approx([before[place] for place in turned], abs=1e-12)


def test_a_score_is_the_sum_of_what_the_terms_add() -> None:
    columns = features(pool_of([1.0, 0.25], cosines=cosines(0.3, 0.7)))
    learnt = blend(terms={**blend().terms, **COSINE}, cosine="mini")
    added = contributions(learnt, columns)
    assert added[0] == {"stage1": 2.0 * (1.0 - 0.5) / 0.25, "cosine": pytest.approx(1.5 * (0.3 - 0.4) / 0.1)}
    assert blend_scores(learnt, columns) == [pytest.approx(4.0 - 1.5), pytest.approx(-2.0 + 4.5)]


@given(st.lists(st.floats(-50.0, 50.0), min_size=1, max_size=9))
def test_relevance_lies_between_0_and_1_in_the_order_of_the_scores(scores: list[float]) -> None:
    found = relevance_of(scores)
    assert max(found) == 1.0
    assert all(0.0 <= value <= 1.0 for value in found)
    for one, value in zip(scores, found):
        for other, lower in zip(scores, found):
            assert value >= lower or one < other


def test_close_scores_stay_close_and_a_wide_pool_ends_at_0() -> None:
    assert relevance_of([1.0, 0.4]) == [1.0, pytest.approx(1.0 - 0.6 / 6.0)]
    assert relevance_of([5.0, 0.0, -5.0]) == [1.0, 0.5, 0.0]
    assert relevance_of([]) == []


@pytest.mark.parametrize(
    ("learnt", "pool", "problem"),
    [
        (blend(), pool_of([1.0, 0.5]), None),
        (blend(), pool_of([1.0, 0.5], measured_by="bm25"), "relevance is bm25 here, and was weighted"),
        (
            blend(terms=COSINE, cosine="mini"),
            pool_of([1.0, 0.5], cosines=cosines(0.5, 0.6, scorer="mini+0123456789ab")),
            "cosines are by mini+0123456789ab here, and were by mini where",
        ),
        (blend(terms=COSINE, cosine="mini"), pool_of([1.0, 0.5], cosines=[*cosines(0.5), None]), "by mini, none here"),
        (blend(terms=COSINE, cosine="mini"), pool_of([1.0, 0.5], cosines=cosines(0.5, 0.6)), None),
        (blend(), pool_of([1.0, 0.5], cosines=cosines(0.5, 0.6)), None),
        (blend(terms=MODEL, reranker="max_sim"), pool_of([1.0, 0.5]), "scores of no reranker here, and of max_sim"),
        (
            blend(),
            pool_of([1.0, 0.5], reranker="max_sim", reranked=[0.5, 0.5]),
            "scores of max_sim here, and of no reranker",
        ),
        (
            blend(terms=MODEL, reranker="max_sim"),
            pool_of([1.0, 0.5], reranker="max_sim", reranked=[0.5, None]),
            "max_sim did not score every candidate",
        ),
        (
            blend(terms=MODEL, reranker="max_sim"),
            pool_of([1.0, 0.5], reranker="max_sim", reranked=[0.5, 0.0]),
            None,
        ),
    ],
)
def test_a_blend_says_nothing_of_scores_it_was_not_learnt_with(
    learnt: LearntBlend, pool: BlendPool, problem: str | None
) -> None:
    found = why_not(learnt, pool)
    assert found is None if problem is None else problem in (found or "")


def test_a_rank_alone_names_its_scorer_too() -> None:
    assert blend(terms=RANK, cosine="mini").cosine == "mini"


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"terms": {}}, "at least 1 item"),
        ({"terms": COSINE}, "a term for 'cosine' or 'cosine_rank' and 'cosine', the name of its scorer"),
        ({"cosine": "mini"}, "a term for 'cosine' or 'cosine_rank' and 'cosine', the name of its scorer"),
        (
            {"terms": {"cosine_rank": BlendTerm(weight=1.0, mean=0.0, deviation=1.0)}},
            "a term for 'cosine' or 'cosine_rank' and",
        ),
        ({"terms": {"stage1": {"weight": 1.0, "mean": 0.0, "deviation": 0.0}}}, "greater than or equal to 0.000001"),
        ({"terms": {"stage1": {"weight": 1e308, "mean": 0.0, "deviation": 1.0}}}, "less than or equal to 1000000"),
        ({"terms": {"stage1": {"weight": 1.0, "mean": float("nan"), "deviation": 1.0}}}, "finite number"),
        ({"evidence": {"gain": float("inf")}}, "not JSON compliant"),
        ({"evidence": {"day": date(2026, 3, 2)}}, "evidence is not JSON"),
        ({"terms": {"charm": {"weight": 1.0, "mean": 0.0, "deviation": 1.0}}}, "Input should be 'stage1'"),
    ],
)
def test_a_blend_that_cannot_be(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        blend(**given)
