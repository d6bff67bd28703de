"""Search options of a base: the weights of its scores, and the merging of two rankings.

The defaults were measured on 2 788 questions over 13 012 passages of financial regulation, R@10 / MAP@10 (see
tests/benchmarks/bench_quality.py; bench_collections.py for other kinds of text): text only .802 / .671, of which
siblings contribute about +.003 / +.003; merged by weight with the vectors of a small model .813 / .691. No effect:
neighbours, windows of long texts, headings embedded with the text. A boost of titles costs .005.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Any

from context_engine.core.models import ScoreKind, ScoringSettings, Settings, VectorSettings
from context_engine.core.ranking.fusion import reciprocal_rank_fusion, weighted_fusion
from context_engine.errors import ConfigError


class SearchOptions(VectorSettings, ScoringSettings):
    """How a base searches and stores vectors; the same for all its sources, so that their scores are comparable.

    Attributes:
        depth: fewest candidates taken from each of text and vectors before merging.
        approximate_from: number of vectors from which a search without a selective filter reads the nearest cells only.
        probe: share of the vectors that such a search reads, (0, 1].
    """

    depth: int = 60
    approximate_from: int = 200_000
    probe: float = 0.1

    def model_post_init(self, _context: Any) -> None:
        """Refuse weights that merge nothing."""
        if not self.keyword_weight + self.vector_weight > 0.0:
            raise ConfigError("keyword_weight and vector_weight are both 0: give one of them a weight")

    @classmethod
    def of(cls, settings: Settings) -> SearchOptions:
        """Return the options in the settings."""
        groups = (settings.group(ScoringSettings), settings.group(VectorSettings))
        return cls(**{key: value for group in groups for key, value in group.model_dump().items()})


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
        best: the highest text score in the whole base; 0 without a match.
        cosine: of every candidate with a vector.
        trust: in the text for this question, [0, 1] (`evidence.trust`).
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

    `top` is the best of the scores, so that a boost has the same effect on all kinds of score.

    Args:
        scores: of each candidate, >= 0.
        title: share of the query's words in title and headings, [0, 1]; candidates without any are omitted.
    """
    top = max(scores.values(), default=0.0)
    total = 1.0 + options.title_boost + options.definition_boost
    return {
        rid: (score + top * (options.title_boost * title.get(rid, 0.0) + options.definition_boost * (rid in defines)))
        / total
        for rid, score in scores.items()
    }


def lifted(scores: Mapping[int, float], holding: Container[int], kind: ScoreKind) -> dict[int, float]:
    """Return scores that rank rows in `holding`, with the query's codes, above all others; each group keeps its order.

    weighted: (score + 1) / 2 for rows with the codes, score / 2 for the others, [0, 1]. This score is also the one
    shown: a threshold t on it means 2t - 1 for rows with the codes and 2t for the others.
    rrf: score + the best of all scores for rows with the codes; the others keep their scores.
    """
    if kind is ScoreKind.WEIGHTED:
        return {rid: (score + (rid in holding)) / 2.0 for rid, score in scores.items()}
    top = max(scores.values(), default=0.0)
    return {rid: score + top if rid in holding else score for rid, score in scores.items()}


def ranked(scores: Mapping[int, float]) -> list[int]:
    """Return the rows, best first; the older row first among equals."""
    return sorted(sorted(scores), key=scores.__getitem__, reverse=True)
