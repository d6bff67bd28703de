"""Relevance by a blend learnt for a domain: a linear score over what stage 2 knows of a candidate.

Every feature is a number of the candidate or of its place among the candidates of the same search, so nothing enters
that the caller may not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, log
from typing import Final, NamedTuple

from context_engine.core.models import BlendFeature, Key, LearntBlend, Score

_CERTAIN: Final = 6.0
"""A logit at which the odds are 400 to 1."""

Columns = dict[BlendFeature, list[float]]
"""By feature, one value a candidate."""


class BlendPool(NamedTuple):
    """What a blend may read of the candidates of one search; the lists have one entry a candidate.

    Attributes:
        keys: their identities.
        measured_by: the kind of score that measured `relevance`; "declared" where a source declared some of it.
        relevance: of stage 1, [0, 1].
        text: the engine's own lexical score over the best in the pool, [0, 1].
        coverage: how much of the question's information the text holds, [0, 1].
        documents: the document each is of; None where it is not known.
        words: how many there are in the text.
        cosines: None where a candidate has none.
        reranker: what names the model reranker.
        reranked: its scores, [0, 1]; None where it gave none.
    """

    keys: Sequence[Key]
    measured_by: str
    relevance: Sequence[float]
    text: Sequence[float]
    coverage: Sequence[float]
    documents: Sequence[Key | None]
    words: Sequence[int]
    cosines: Sequence[Score | None]
    reranker: str
    reranked: Sequence[float | None]

    @property
    def cosine_scorers(self) -> set[str | None]:
        """Who computed the cosines; None where a candidate has none, or its scorer no name."""
        return {None if cosine is None else cosine.scorer for cosine in self.cosines}


def features(pool: BlendPool) -> Columns:
    """Return the features of each candidate; those of a score that some candidate lacks are left out.

    stage1, coverage, cosine, reranker: as in the pool. text: the lexical score over the best. *_rank: 1 / rank by that
    score, (0, 1], equal scores having one rank, so that the order of the candidates does not matter. document: the
    share that the other candidates of its document have in all stage 1's relevance, document_best: the best of theirs;
    0 where there are none. length: ln(1 + words), and its square, as neither the shortest texts nor the longest need
    be those that answer.

    >>> pool = BlendPool([("s", "a"), ("s", "b")], "bm25", [1.0, 0.5], [0.8, 1.0], [1.0, 0.5], [None] * 2,
    ...     [9, 9], [None] * 2, "", [None] * 2)
    >>> found = features(pool)
    >>> found["stage1_rank"], found["text_rank"], "cosine" in found
    ([1.0, 0.5], [0.5, 1.0], False)
    """
    share, best = _of_same_document(pool)
    lengths = [log(1 + count) for count in pool.words]
    columns: Columns = {
        "stage1": list(pool.relevance),
        "stage1_rank": _reciprocal_ranks(pool.relevance),
        "text": list(pool.text),
        "text_rank": _reciprocal_ranks(pool.text),
        "coverage": list(pool.coverage),
        "document": share,
        "document_best": best,
        "length": lengths,
        "length_squared": [length * length for length in lengths],
    }
    cosines = [cosine.value for cosine in pool.cosines if cosine is not None]
    if len(cosines) == len(pool.keys):
        columns |= {"cosine": cosines, "cosine_rank": _reciprocal_ranks(cosines)}
    reranked = [score for score in pool.reranked if score is not None]
    if len(reranked) == len(pool.keys):
        columns |= {"reranker": reranked, "reranker_rank": _reciprocal_ranks(reranked)}
    return columns


def _of_same_document(pool: BlendPool) -> tuple[list[float], list[float]]:
    """Return the share of the others of each candidate's document in all relevance, and the best relevance of them."""
    all_relevance = fsum(pool.relevance) or 1.0
    of: dict[Key, list[float]] = {}
    for document, relevance in zip(pool.documents, pool.relevance, strict=True):
        if document is not None:
            of.setdefault(document, []).append(relevance)
    two_best = {document: (fsum(relevances), sorted([0.0, *relevances])[-2:]) for document, relevances in of.items()}
    shares, best = [], []
    for document, own in zip(pool.documents, pool.relevance):
        total, (second, first) = two_best[document] if document is not None else (own, [0.0, own])
        shares.append(max(total - own, 0.0) / all_relevance)
        best.append(second if own == first else first)
    return shares, best


def _reciprocal_ranks(values: Sequence[float]) -> list[float]:
    rank: dict[float, int] = {}
    for place, value in enumerate(sorted(values, reverse=True), start=1):
        rank.setdefault(value, place)
    return [1.0 / rank[value] for value in values]


def why_not(blend: LearntBlend, pool: BlendPool) -> str | None:
    """Return why a blend says nothing of a pool, None where it does: it was learnt with scores of other scorers."""
    if pool.measured_by != blend.measured_by:
        return f"relevance is {pool.measured_by} here, and was {blend.measured_by} where it was learnt"
    if blend.cosine is not None and pool.cosine_scorers != {blend.cosine}:
        named = ", ".join(sorted(scorer or "none" for scorer in pool.cosine_scorers))
        return f"cosines are by {named} here, and were by {blend.cosine} where it was learnt"
    ran = any(score is not None for score in pool.reranked)
    if (pool.reranker if ran else None) != blend.reranker:
        here, learnt_with = pool.reranker if ran else "no reranker", blend.reranker or "no reranker"
        return f"there are scores of {here} here, and of {learnt_with} where it was learnt"
    return None if not ran or None not in pool.reranked else f"{blend.reranker} did not score every candidate"


def contributions(blend: LearntBlend, columns: Columns) -> list[dict[BlendFeature, float]]:
    """Return for each candidate what every term adds: weight * (value - mean) / deviation."""
    return [
        {name: term.weight * (columns[name][place] - term.mean) / term.deviation for name, term in blend.terms.items()}
        for place in range(len(columns["stage1"]))
    ]


def blend_scores(blend: LearntBlend, columns: Columns) -> list[float]:
    """Return the sum of what the terms add, for each candidate; its scale is that of logits."""
    return [fsum(terms.values()) for terms in contributions(blend, columns)]


def relevance_of(scores: Sequence[float]) -> list[float]:
    """Return scores of a blend as relevance, [0, 1]: 1 - (best - s) / max(best - least, 6).

    A difference of two scores is the logit of the one answering rather than the other (Bradley and Terry 1952), so 6
    is as good as certain: near-equal scores stay near-equal, and where all are close none falls far. Probabilities in
    place of the straight line put nearly all candidates at 0, where the authority boost alone orders them.

    >>> relevance_of([2.0, 0.5, -7.0]), relevance_of([0.3, 0.0])
    ([1.0, 0.8333333333333334, 0.0], [1.0, 0.95])
    """
    best, least = max(scores, default=0.0), min(scores, default=0.0)
    span = max(best - least, _CERTAIN)
    return [1.0 - (best - score) / span for score in scores]
