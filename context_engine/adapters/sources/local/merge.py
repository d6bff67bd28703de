"""Two rankings of the same chunks as one; pure arithmetic.

Within one base both true scores of every candidate are known, so scores are fused, not ranks: rank fusion with k = 60
does not beat BM25 alone on mean average precision.
"""

from __future__ import annotations

from collections.abc import Container, Mapping

from context_engine.adapters.sources.local.options import SearchOptions
from context_engine.core.models import ScoreKind
from context_engine.core.ranking.fusion import reciprocal_rank_fusion, weighted_fusion


def kind_of(options: SearchOptions) -> ScoreKind:
    """Return the kind of a merged score."""
    return ScoreKind.WEIGHTED if options.merge_method == "weighted" else ScoreKind.RRF


def merged(
    text: Mapping[int, float], best: float, cosine: Mapping[int, float], options: SearchOptions, trust: float = 1.0
) -> dict[int, float]:
    """Return one score of each candidate.

    weighted: (trust * keyword_weight * text / best + vector_weight * max(cosine, 0)) / (sum of both weights), [0, 1].
    rrf: the sum of 1 / (rrf_k + rank) over both rankings; a text score of 0 has no rank.

    Args:
        text: text score of every candidate, >= 0.
        best: the best possible text score in the whole base; 0 where no text matches.
        cosine: of every candidate that has a vector.
        options: the method, its weights and its constant.
        trust: how far the text is trusted on this question, [0, 1] (`evidence.trust`).
    """
    if options.merge_method == "weighted":
        lexical = {rid: trust * min(score / best, 1.0) if best > 0.0 else 0.0 for rid, score in text.items()}
        dense = {rid: min(max(score, 0.0), 1.0) for rid, score in cosine.items()}
        total = options.keyword_weight + options.vector_weight
        return weighted_fusion([lexical, dense], [options.keyword_weight / total, options.vector_weight / total])
    by_text = ranked({rid: score for rid, score in text.items() if score > 0.0})
    fused = reciprocal_rank_fusion([by_text, ranked(cosine)], k=options.rrf_k)
    return {rid: fused.get(rid, 0.0) for rid in text}


def boosted(
    scores: Mapping[int, float], title: Mapping[int, float], defines: Container[int], options: SearchOptions
) -> dict[int, float]:
    """Return (score + top * (title_boost * share of title + definition_boost * defines)) / (1 + both boosts).

    `top` is the best of the scores, so that a boost means the same whatever their kind.

    Args:
        scores: of each candidate, >= 0.
        title: share of the query's words in title and headings, [0, 1], of those that have any.
        defines: candidates that define a term of the query.
        options: the boosts.
    """
    top = max(scores.values(), default=0.0)
    whole = 1.0 + options.title_boost + options.definition_boost
    return {
        rid: (score + top * (options.title_boost * title.get(rid, 0.0) + options.definition_boost * (rid in defines)))
        / whole
        for rid, score in scores.items()
    }


def lifted(scores: Mapping[int, float], holding: Container[int], kind: ScoreKind) -> dict[int, float]:
    """Return scores in which what holds the codes asked for stands above all else; both halves keep their order.

    weighted: (score + 1) / 2 of what holds them, score / 2 of all else, [0, 1]. The engine ranks by this number, so it
    is the one shown: a threshold t on it asks 2t - 1 of what holds the codes and 2t of all else.
    rrf: score + the best score of what holds them; all else keeps its score.
    """
    if kind is ScoreKind.WEIGHTED:
        return {rid: (score + (rid in holding)) / 2.0 for rid, score in scores.items()}
    top = max(scores.values(), default=0.0)
    return {rid: score + top if rid in holding else score for rid, score in scores.items()}


def ranked(scores: Mapping[int, float]) -> list[int]:
    """Return the rows, best first, of equal scores the older row first."""
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)
