"""Relevance by a blend that was learnt for a domain: a linear score over the features of a candidate in stage 2.

Every feature comes from the candidate or from its place among the candidates of the same search, so no chunk that the
caller may not read can influence it.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import fsum, log
from typing import Final, NamedTuple

from context_engine.core.models import BlendFeature, Key, LearntBlend, Score

_CERTAIN: Final = 6.0
"""Logit at which the odds are 400 to 1."""

Columns = dict[BlendFeature, list[float]]
"""Values by feature, one per candidate."""


class BlendPool(NamedTuple):
    """The input of a blend for the candidates of one search; each list has one entry per candidate.

    Attributes:
        keys: identities.
        measured_by: the kind of score behind `relevance`; "declared" if a source declared some of it.
        relevance: stage 1's, [0, 1].
        text: the engine's lexical score divided by the best in the pool, [0, 1].
        coverage: share of the question's information that the text holds, [0, 1].
        documents: the document of each; None if unknown.
        words: number of words in each text.
        cosines: None for a candidate without one.
        reranker: name of the model reranker.
        reranked: the reranker's scores, [0, 1]; None if it gave none.
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
        """The scorers of the cosines; None for a missing cosine or an unnamed scorer."""
        return {None if cosine is None else cosine.scorer for cosine in self.cosines}


def features(pool: BlendPool) -> Columns:
    """Return the features of each candidate; features of a score that some candidate lacks are left out.

    stage1, text, coverage, cosine and reranker are the pool's. *_rank is 1 / rank by that score, (0, 1]; equal scores
    share a rank, so that the order of the candidates does not matter. document is the share of all stage-1 relevance
    that the other candidates of the same document have, document_best the highest of theirs; 0 without others. length
    is ln(1 + words). Its square is a feature too: neither the shortest nor the longest texts need be the best answers.

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
    """For each candidate, look at the other candidates of its document; return their share of all relevance, and the
    highest relevance among them."""
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
    """Return why a blend does not apply to a pool (it was learnt with other scorers), or None if it applies."""
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
    """Return for each candidate the contribution of each term: weight * (value - mean) / deviation."""
    return [
        {name: term.weight * (columns[name][place] - term.mean) / term.deviation for name, term in blend.terms.items()}
        for place in range(len(columns["stage1"]))
    ]


def blend_scores(blend: LearntBlend, columns: Columns) -> list[float]:
    """Return the sum of each candidate's contributions, on the scale of logits."""
    return [fsum(terms.values()) for terms in contributions(blend, columns)]


def relevance_of(scores: Sequence[float]) -> list[float]:
    """Return blend scores as relevance, [0, 1]: 1 - (best - s) / max(best - lowest, 6).

    The difference of two scores is the logit of one candidate answering rather than the other (Bradley and Terry 1952),
    so a difference of 6 is as good as certain. Near-equal scores stay near-equal. Probabilities instead of this
    straight line would put nearly all candidates at 0, where only the authority boost would order them.

    >>> relevance_of([2.0, 0.5, -7.0]), relevance_of([0.3, 0.0])
    ([1.0, 0.8333333333333334, 0.0], [1.0, 0.95])
    """
    best, least = max(scores, default=0.0), min(scores, default=0.0)
    span = max(best - least, _CERTAIN)
    return [1.0 - (best - score) / span for score in scores]
