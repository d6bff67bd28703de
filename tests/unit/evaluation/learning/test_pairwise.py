"""Weights of a blend by pairwise logistic regression."""

from __future__ import annotations

from math import exp

import pytest

from context_engine.core.models import LearntBlend
from context_engine.core.ranking.learnt_blend import contributions
from context_engine.evaluation.learning.blend_lessons import JudgedPool, learnt_terms

np = pytest.importorskip("numpy", reason="the extra 'vectors'")

ONE = JudgedPool({"stage1": [1.0, 0.0], "coverage": [0.5, 0.5]}, [True, False])
OTHER = JudgedPool({"stage1": [0.5, 1.0, 0.0], "coverage": [1.0, 0.0, 0.0]}, [True, False, False])


def slope(
    pools: list[JudgedPool], weights: dict[str, float], deviation: dict[str, float], pull: float
) -> dict[str, float]:
    """The derivative of the penalised likelihood by each weight, written out pair by pair."""
    found = {name: -pull * weight for name, weight in weights.items()}
    for pool in pools:
        ours = [place for place, relevant in enumerate(pool.relevant) if relevant]
        others = [place for place, relevant in enumerate(pool.relevant) if not relevant]
        for one in ours:
            for other in others:
                apart = {
                    name: (pool.columns[name][one] - pool.columns[name][other]) / deviation[name] for name in weights
                }
                margin = sum(weights[name] * apart[name] for name in weights)
                missing = 1.0 / (1.0 + exp(margin))
                for name in weights:
                    found[name] += missing * apart[name] / (len(ours) * len(others))
    return found


@pytest.mark.parametrize("pull", [0.01, 0.1, 3.0])
def test_the_weights_are_the_best_there_are(pull: float) -> None:
    terms = learnt_terms([ONE, OTHER], pull=pull)
    weights, deviation = (
        {name: getattr(term, part) for name, term in terms.items()} for part in ("weight", "deviation")
    )
    assert slope([ONE, OTHER], weights, deviation, pull) == {name: pytest.approx(0.0, abs=1e-8) for name in weights}


def test_mean_and_deviation_are_those_of_all_candidates() -> None:
    terms = learnt_terms([ONE, OTHER])
    assert list(terms) == ["stage1", "coverage"]
    stage1 = [1.0, 0.0, 0.5, 1.0, 0.0]
    assert terms["stage1"].mean == pytest.approx(sum(stage1) / 5)
    assert terms["stage1"].deviation == pytest.approx(float(np.std(stage1)))


def test_every_question_counts_alike_however_many_pairs_it_has() -> None:
    """One question prefers the first feature, one with a hundred times its pairs the second: neither outweighs."""
    few = JudgedPool({"stage1": [1.0, 0.0], "coverage": [0.0, 1.0]}, [True, False])
    many = JudgedPool({"stage1": [0.0] + [1.0] * 100, "coverage": [1.0] + [0.0] * 100}, [True] + [False] * 100)
    terms = learnt_terms([few, many])
    assert terms["stage1"].weight / terms["stage1"].deviation == pytest.approx(0.0, abs=1e-6)
    assert terms["coverage"].weight / terms["coverage"].deviation == pytest.approx(0.0, abs=1e-6)


def test_what_is_the_same_everywhere_or_missing_somewhere_has_no_term() -> None:
    flat = JudgedPool({"stage1": [1.0, 0.0], "coverage": [0.5, 0.5]}, [True, False])
    assert list(learnt_terms([flat, flat])) == ["stage1"]
    without = JudgedPool({"stage1": [0.4, 0.3]}, [False, True])
    assert list(learnt_terms([OTHER, without])) == ["stage1"]


def test_a_question_whose_candidates_all_answer_or_none_teaches_nothing() -> None:
    all_of_them = JudgedPool({"stage1": [9.0, 0.0], "coverage": [9.0, 0.0]}, [True, True])
    none = JudgedPool({"stage1": [9.0, 0.0], "coverage": [9.0, 0.0]}, [False, False])
    assert not all_of_them.teaches
    assert not none.teaches
    assert learnt_terms([ONE, all_of_them, OTHER, none]) == learnt_terms([ONE, OTHER])
    with pytest.raises(ValueError, match="no pool has both"):
        learnt_terms([none])


def test_candidates_that_one_feature_parts_are_ranked_by_it() -> None:
    random = np.random.default_rng(5)
    pools = []
    for _ in range(60):
        noise, told = random.random(8), random.random(8)
        pools.append(JudgedPool({"stage1": noise.tolist(), "cosine": told.tolist()}, (told > 0.7).tolist()))
    terms = learnt_terms(pools)
    assert terms["cosine"].weight > 10 * abs(terms["stage1"].weight)
    blend = LearntBlend(measured_by="weighted", cosine="mini", terms=terms)
    for pool in pools:
        scores = [sum(one.values()) for one in contributions(blend, dict(pool.columns))]
        relevant = [score for score, answers in zip(scores, pool.relevant) if answers]
        others = [score for score, answers in zip(scores, pool.relevant) if not answers]
        assert min(relevant, default=99.0) > max(others, default=-99.0) - 0.5
