"""Weights of a blend from judged candidates: pairwise logistic regression.

The probability that one candidate answers rather than another is taken for the logistic function of the difference of
their scores (Bradley and Terry 1952; Joachims, KDD 2002, for rankings). Only candidates of one question are compared,
so nothing is asked of scores across questions.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple

from context_engine.core.models import BLEND_FEATURES, LEAST_DEVIATION, BlendFeature, BlendTerm
from context_engine.errors import MissingExtra

PULL: Final = 0.1
"""Of the squared weights towards 0, beside 1 for each question; from .01 to 1 nothing changes where questions are
many."""

_STEPS: Final = 50
_SMALL: Final = 1e-9
_STEEPEST: Final = 30.0


class JudgedPool(NamedTuple):
    """The candidates of one question.

    Attributes:
        columns: by feature, one value a candidate.
        relevant: of each candidate, whether it was judged to answer.
    """

    columns: Mapping[BlendFeature, Sequence[float]]
    relevant: Sequence[bool]

    @property
    def teaches(self) -> bool:
        """Whether there is a pair of which one answers and the other does not."""
        return any(self.relevant) and not all(self.relevant)


def learnt_terms(pools: Sequence[JudgedPool], *, pull: float = PULL) -> dict[BlendFeature, BlendTerm]:
    """Return the terms of the features that every pool has, in the order of BLEND_FEATURES.

    The weights maximise sum over questions of mean over pairs of ln logistic(w * (x_relevant - x_other)), less
    pull / 2 * |w|^2, over standardised features: strictly concave, so that there is one best, found by Newton's method.
    A feature that is the same everywhere has no term.

    Args:
        pools: of the questions; those that teach nothing are passed over.
        pull: L2 penalty, > 0.

    Raises:
        MissingExtra: numpy is not installed.
        ValueError: no pool teaches anything.
    """
    try:
        import numpy as np
    except ImportError as error:
        raise MissingExtra("learning a blend", "vectors") from error
    taught = [one for one in pools if one.teaches]
    if not taught:
        raise ValueError("no pool has both a relevant candidate and another")
    names = [name for name in BLEND_FEATURES if all(name in one.columns for one in taught)]
    tables = [np.array([one.columns[name] for name in names]).T for one in taught]
    everything = np.vstack(tables)
    mean, deviation = everything.mean(axis=0), everything.std(axis=0)
    kept = deviation >= LEAST_DEVIATION
    scaled = [table[:, kept] / deviation[kept] for table in tables]
    weights = _maximum(np, *_pairs(np, scaled, taught), pull)
    rows = zip(np.flatnonzero(kept).tolist(), weights.tolist())
    return {
        names[place]: BlendTerm(weight=weight, mean=float(mean[place]), deviation=float(deviation[place]))
        for place, weight in rows
    }


def _pairs(np: Any, tables: Sequence[Any], pools: Sequence[JudgedPool]) -> tuple[Any, Any]:
    """Return the differences relevant - other of all pairs, and what each pair counts: those of a question 1 in all."""
    differences, counts = [], []
    for table, pool in zip(tables, pools, strict=True):
        relevant = np.array(pool.relevant, bool)
        rows = (table[relevant][:, None] - table[~relevant][None]).reshape(-1, table.shape[1])
        differences.append(rows)
        counts.append(np.full(len(rows), 1.0 / len(rows)))
    return np.vstack(differences), np.concatenate(counts)


def _maximum(np: Any, differences: Any, counts: Any, pull: float) -> Any:
    """Return the weights with the greatest likelihood less the penalty; a Newton step is halved until it helps."""
    weights = np.zeros(differences.shape[1])
    held = _value(np, differences, counts, weights, pull)
    for _ in range(_STEPS):
        likely = 1.0 / (1.0 + np.exp(-np.clip(differences @ weights, -_STEEPEST, _STEEPEST)))
        slope = differences.T @ (counts * (1.0 - likely)) - pull * weights
        bent = (differences * (counts * likely * (1.0 - likely))[:, None]).T @ differences
        step = np.linalg.solve(bent + pull * np.eye(len(weights)), slope)
        while (value := _value(np, differences, counts, weights + step, pull)) < held and np.abs(step).max() > _SMALL:
            step = step / 2.0
        weights, held = weights + step, value
        if np.abs(step).max() < _SMALL:
            break
    return weights


def _value(np: Any, differences: Any, counts: Any, weights: Any, pull: float) -> float:
    likelihood = -(counts * np.logaddexp(0.0, -(differences @ weights))).sum()
    return float(likelihood - pull / 2.0 * (weights @ weights))
