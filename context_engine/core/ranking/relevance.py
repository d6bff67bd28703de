"""Relevance, the number in [0, 1] that enters the formula, and the absolute signal beside it.

Ranks and scores normalised source by source cannot be compared across disjoint sources. So one scorer measures all
candidates: a score they share (one index, one model), else the engine's own lexical score over the union. A model
reranker's scores are then blended in."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from math import exp, inf, isfinite, sqrt
from typing import Final, NamedTuple

from context_engine.core.models import NOTHING, Key, Score, ScoreKind, TermStatistics
from context_engine.core.ranking.candidates import Candidate
from context_engine.core.ranking.lexical import LexicalScores, lexical_scores
from context_engine.core.ranking.scope import evidence
from context_engine.errors import RerankerError

_MOST: Final = 700.0
"""Largest exponent, roughly, at which e^x still fits a float."""


def logistic(value: float) -> float:
    """Return 1 / (1 + e^-value), (0, 1) in theory, [0, 1] in floats.

    >>> logistic(0.0)
    0.5
    """
    return 1.0 / (1.0 + exp(-min(max(value, -_MOST), _MOST)))


def unit_scores(name: str, values: Sequence[float]) -> list[float]:
    """Return scores as they are if all lie in [0, 1]; otherwise treat all as logits and apply the logistic function.

    Raises:
        RerankerError: a score is not finite.
    """
    if not all(isfinite(value) for value in values):
        raise RerankerError(f"{name} gave a score that is not finite")
    if all(0.0 <= value <= 1.0 for value in values):
        return list(values)
    return [logistic(value) for value in values]


_SHARED_KINDS: Final = (
    ScoreKind.RERANK,
    ScoreKind.WEIGHTED,
    ScoreKind.COSINE,
    ScoreKind.RRF,
    ScoreKind.BM25,
    ScoreKind.FULLTEXT,
    ScoreKind.LEXICAL,
)
"""Kinds that can be the common measure, the most informative first. `unknown` never is: it may be a distance."""

_SHIFT: Final = 0.25
"""Shift of the geometric mean of coverage and cosine. Without it, a text that shares no word with the question would
have no signal, however close its meaning."""


class Measured(NamedTuple):
    """Relevance and absolute signal, one per candidate in the order given.

    Attributes:
        relevance: [0, 1], used for ranking; relative to the pool unless the source declared it.
        absolute: [0, 1], comparable across pools; used for thresholds.
        by: the score kind that measured the undeclared candidates; "declared" if there were none.
        lexical, coverage: the engine's own scores of the undeclared candidates; empty if there were none.
        evidence: how much of what is asked the candidate tells (`near_miss.evidence`); infinite if its source declared
            relevance.
    """

    relevance: list[float]
    absolute: list[float]
    by: str
    lexical: list[float]
    coverage: list[float]
    evidence: list[float]


def measure(
    query: str,
    candidates: Sequence[Candidate],
    statistics: Mapping[str, TermStatistics] = NOTHING,
    known: Sequence[float] | None = None,
    linked: Container[Key] = (),
) -> Measured:
    """Return relevance and absolute signal of each candidate.

    A score that its source declares to be relevance is used as both. The other candidates are measured by the first of
    rerank, weighted, cosine, rrf, bm25 and fulltext that all of them have from one scorer (or from their only source),
    else by the engine's lexical score, and normalised by `normalise_pool`. Across several sources the cosine of one
    model counts half, and the engine's lexical score divided by its best counts the other half.

    The absolute signal is the share of the query's information that a candidate holds (`lexical_scores`), combined with
    its cosine if it has one (`with_cosine`). A rerank score, or a weighted score without a cosine, replaces it if
    higher. A reranker with scores outside [0, 1] gives logits, which go through the logistic function. A pool of one
    keeps its absolute signal as relevance.

    Args:
        candidates: the pool.
        statistics: frequencies of the question's terms in each source's collection, by the source's id.
        known: their relevance in a larger pool (`relevance_by_scores`); None if they are the whole pool.
        linked: candidates that no source found for the query; they are measured on the scale of the others.
    """
    declared = [candidate.chunk.score(ScoreKind.RELEVANCE) for candidate in candidates]
    open_ = [index for index, value in enumerate(declared) if value is None]
    relevance = [value or 0.0 for value in declared]
    absolute = relevance.copy()
    informations = [inf] * len(candidates)
    if not open_:
        return Measured(relevance, absolute, "declared", [], [], informations)
    pool = [candidates[index] for index in open_]
    collections = [statistics.get(candidate.spec.id) for candidate in pool]
    lexical = lexical_scores(
        query, [candidate.text for candidate in pool], [candidate.label for candidate in pool], collections
    )
    recalled = [candidate for candidate in pool if candidate.key not in linked] or pool
    kind = _common_kind(recalled)
    logits = _logit_scorers(pool)
    values = lexical.score if kind is None else [_measured_by(candidate, kind, logits) for candidate in pool]
    if kind is ScoreKind.COSINE and not _one_source(recalled):
        values = _blended(lexical.score, values)
    signals = _absolute(pool, lexical, logits)
    scale = [value for candidate, value in zip(pool, values) if candidate.key not in linked]
    for index, share, signal in zip(open_, normalise_pool(values, scale), signals):
        relevance[index] = signal if len(open_) == 1 else share
        absolute[index] = signal
    for index, candidate, joint in zip(open_, pool, lexical.joint):
        informations[index] = evidence(joint, candidate.chunk.score(ScoreKind.COSINE))
    if known is not None:
        relevance = list(known)
    return Measured(relevance, absolute, str(kind or ScoreKind.LEXICAL), lexical.score, lexical.coverage, informations)


def relevance_by_scores(candidates: Sequence[Candidate]) -> list[float] | None:
    """Return the relevance that `measure` gives, from scores alone; None if it needs the candidates' texts.

    The texts are needed if a source declares relevance, if only words or cosines compare the sources, and if a
    reranker's scores may be logits, which depends on the pool.
    """
    kinds = {score.kind for candidate in candidates for score in candidate.chunk.scores}
    kind = _common_kind(candidates) if candidates else None
    compared = kind is not None and (kind is not ScoreKind.COSINE or _one_source(candidates))
    if kind is None or not compared or kinds & {ScoreKind.RELEVANCE, ScoreKind.RERANK}:
        return None
    return normalise_pool([_measured_by(candidate, kind, set()) for candidate in candidates])


def normalise_pool(scores: Sequence[float], scale: Sequence[float] = ()) -> list[float]:
    """Return (s - lo) / (max - lo) with lo = min(pool minimum, 0.5 * max), in [0, 1]; 0 everywhere if max <= 0.

    Near-equal scores stay near-equal: 10 and 9 give 1 and 0.8, where plain min-max would give 1 and 0.

    Args:
        scale: the scores from which minimum and max are taken, if not from all; others are limited to [0, 1].

    >>> normalise_pool([10.0, 9.0])
    [1.0, 0.8]
    """
    scale = scale or scores
    high = max(scale, default=0.0)
    if high <= 0.0:
        return [0.0] * len(scores)
    low = min(min(scale), 0.5 * high)
    return [min(max((score - low) / (high - low), 0.0), 1.0) for score in scores]


def with_cosine(coverage: float, cosine: float) -> float:
    """Return coverage and cosine as one signal, [0, 1]: sqrt((coverage + s) * (cosine + s)) - s, s = 1/4.

    In a shifted geometric mean both count, and a model whose cosines are all high or all low (unrelated texts have .0
    to .2 with one model, .6 to .8 with another) moves the signal of every question alike; in a plain mean it would
    drown out the words. The result is at least half the coverage, as an exact code has almost no cosine.

    Args:
        coverage: share of the question's information that the text holds, [0, 1].
        cosine: of question and text, [-1, 1]; a negative one counts as 0.

    >>> [round(with_cosine(*both), 3) for both in ((1.0, 1.0), (0.0, 0.6), (1.0, 0.0), (0.4, 0.5))]
    [1.0, 0.211, 0.5, 0.448]
    """
    closeness = min(max(cosine, 0.0), 1.0)
    return min(max(sqrt((coverage + _SHIFT) * (closeness + _SHIFT)) - _SHIFT, coverage / 2.0), 1.0)


def _common_kind(pool: Sequence[Candidate]) -> ScoreKind | None:
    """Return the first kind of score that every candidate has from one scorer; None if there is none."""
    one_source = _one_source(pool)
    for kind in _SHARED_KINDS:
        if _score_of(pool[0], kind) is None:
            continue
        scores = [_score_of(candidate, kind) for candidate in pool]
        if any(score is None for score in scores):
            continue
        scorers = {score.scorer for score in scores if score is not None}
        if len(scorers) == 1 and (one_source or None not in scorers):
            return kind
    return None


def _one_source(pool: Sequence[Candidate]) -> bool:
    return len({candidate.spec.id for candidate in pool}) == 1


def _blended(lexical: Sequence[float], cosines: Sequence[float]) -> list[float]:
    """Return the mean of cosine and lexical score (divided by its best): either alone ranks much worse."""
    best = max(lexical) or 1.0
    return [(score / best + max(cosine, 0.0)) / 2.0 for score, cosine in zip(lexical, cosines, strict=True)]


def _score_of(candidate: Candidate, kind: ScoreKind) -> Score | None:
    for score in candidate.chunk.scores:
        if score.kind is kind:
            return score
    return None


def _logit_scorers(pool: Sequence[Candidate]) -> set[str]:
    """Return the scorers (for unnamed ones, their sources) with a rerank score outside [0, 1]: all their scores are
    logits."""
    return {
        _scorer(candidate, score)
        for candidate in pool
        for score in candidate.chunk.scores
        if score.kind is ScoreKind.RERANK and not 0.0 <= score.value <= 1.0
    }


def _scorer(candidate: Candidate, score: Score) -> str:
    return f"by {score.scorer}" if score.scorer else f"in {candidate.spec.id}"


def _measured_by(candidate: Candidate, kind: ScoreKind, logits: set[str]) -> float:
    score = _score_of(candidate, kind)
    if score is None:
        return 0.0
    return _bounded(candidate, score, logits) if kind is ScoreKind.RERANK else score.value


def _absolute(pool: Sequence[Candidate], lexical: LexicalScores, logits: set[str]) -> list[float]:
    return [_signal(candidate, coverage, logits) for candidate, coverage in zip(pool, lexical.coverage)]


def _signal(candidate: Candidate, coverage: float, logits: set[str]) -> float:
    cosine = candidate.chunk.score(ScoreKind.COSINE)
    signal = coverage if cosine is None else with_cosine(coverage, cosine)
    for score in candidate.chunk.scores:
        if score.kind is ScoreKind.RERANK or (score.kind is ScoreKind.WEIGHTED and cosine is None):
            signal = max(signal, _bounded(candidate, score, logits))
    return signal


def _bounded(candidate: Candidate, score: Score, logits: set[str]) -> float:
    """Return a rerank or weighted score as an absolute signal, [0, 1]."""
    if score.kind is not ScoreKind.RERANK or _scorer(candidate, score) not in logits:
        return min(max(score.value, 0.0), 1.0)
    return logistic(score.value)


def best_of(rows: Sequence[int], relevance: Sequence[float], tiers: Sequence[int], most: int | None) -> list[int]:
    """Return the rows to rerank, ascending: the `most` best by relevance, then tier, then row.

    Args:
        relevance, tiers: one per row.
        most: None for all.
    """
    if most is None:
        return sorted(rows)
    return sorted(sorted(rows, key=lambda row: (-relevance[row], tiers[row], row))[:most])


def blended(relevance: float, score: float, weight: float) -> float:
    """Return weight * relevance + (1 - weight) * score, all in [0, 1]."""
    return weight * relevance + (1.0 - weight) * score


def below_reranked(rest: Sequence[float], before: Sequence[float], after: Sequence[float]) -> list[float]:
    """Return the relevance of the candidates that were not reranked, none above the lowest reranked candidate.

    The reranked candidates stay above the rest, which stage 1 found worse. With f = min(1, min(after) / min(before)),
    relevance r becomes min(f * r, min(after)): the rest keeps its order and proportions, and nothing rises.

    Args:
        rest: relevance of the candidates that were not reranked, [0, 1], none above min(before).
        before: stage-1 relevance of the reranked candidates.
        after: their relevance after reranking.
    """
    low, high = min(after, default=1.0), min(before, default=1.0)
    factor = min(low / high, 1.0) if high > 0.0 else 1.0
    return [min(factor * value, low) for value in rest]
