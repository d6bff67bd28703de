"""Search options of a base: the weights of its scores, and the merging of two rankings.

The defaults were measured on 2 788 questions over 13 012 passages of financial regulation, R@10 / MAP@10 (see
tests/benchmarks/bench_quality.py; bench_collections.py for other kinds of text): text only .802 / .671, of which
siblings contribute about +.003 / +.003; merged by weight with the vectors of a small model .813 / .691. No effect:
neighbours, windows of long texts, headings embedded with the text. A boost of titles costs .005.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Container, Mapping
from math import log
from typing import Any, Final

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

    weighted: (trust * keyword_weight * text / best + vector_weight * near) / (sum of both weights), [0, 1], with
    near = max(cosine - floor, 0) / (1 - floor) for the floor of the model's cosines.
    rrf: the sum of 1 / (rrf_k + rank) over both rankings; a text score of 0 has no rank.

    Args:
        text: text score of every candidate, >= 0.
        best: the highest text score in the whole base; 0 without a match.
        cosine: of every candidate with a vector.
        trust: in the text for this question, [0, 1] (`evidence.trust`).
    """
    if options.merge_method == "weighted":
        lexical = {rid: trust * min(score / best, 1.0) if best > 0.0 else 0.0 for rid, score in text.items()}
        floor = options.cosine_floor or 0.0
        dense = {rid: min(max((score - floor) / (1.0 - floor), 0.0), 1.0) for rid, score in cosine.items()}
        total = options.keyword_weight + options.vector_weight
        return weighted_fusion([lexical, dense], [options.keyword_weight / total, options.vector_weight / total])
    by_text = ranked({rid: score for rid, score in text.items() if score > 0.0})
    fused = reciprocal_rank_fusion([by_text, ranked(cosine)], k=options.rrf_k)
    return {rid: fused.get(rid, 0.0) for rid in text}


def smoothed(
    text: Mapping[int, float],
    section: Mapping[int, int],
    document: Mapping[int, int],
    options: SearchOptions,
    section_scores: Callable[[Collection[int]], Mapping[int, float]] | None = None,
) -> dict[int, float]:
    """Return each text score plus the contributions of its section and neighbours.

    score + section_weight * BM25 of the whole section + sibling_weight * best score in the section
    + neighbour_weight * (score of the chunk before + score of the chunk after).

    Args:
        text: score of each row; siblings and neighbours are taken from these rows only.
        section: the number of each row's section.
        document: the number of each row's document; not read if neighbours have no weight.
        section_scores: returns the BM25 of the text of whole sections; None: a store that has no such texts.
    """
    best: dict[int, float] = {}
    for rid, score in text.items():
        if score > best.get(section[rid], -1.0):
            best[section[rid]] = score
    sections = section_scores(best) if section_scores is not None and options.section_weight else {}
    of_section = {name: options.section_weight * sections.get(name, 0.0) for name in best}
    of_sibling = {name: options.sibling_weight * score for name, score in best.items()}
    out = {rid: score + of_section[section[rid]] + of_sibling[section[rid]] for rid, score in text.items()}
    if options.neighbour_weight:
        for rid in text:
            beside = [rid + step for step in (-1, 1) if rid + step in text and document[rid + step] == document[rid]]
            out[rid] += options.neighbour_weight * sum(text[other] for other in beside)
    return out


def whole(options: SearchOptions) -> float:
    """Return about how often the highest text score counts if its section and neighbours match too."""
    return 1.0 + options.section_weight + options.sibling_weight + 2.0 * options.neighbour_weight


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


CLEARLY: Final = 0.5
"""Share of the best text score from which a row with the question's codes matches its other words well."""


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


COVERAGE_EXPONENT: Final = 0.3
"""Exponent of the covered share of the question; .25 to .33 measured alike."""

_EVIDENCE: Final = 4.0
"""Evidence beyond ln(1 + N), as a multiple of it, at which the text is fully trusted; 3.5 to 5 measured alike."""

_WHOLE: Final = 4
"""Exponent of the best hit's share: a share of .84 gives a trust of one half."""


def covered(score: float, share: float) -> float:
    """Return score * share ** COVERAGE_EXPONENT.

    >>> round(covered(8.0, 1 / 1024), 6)
    1.0
    """
    return float(score * share**COVERAGE_EXPONENT)


def trust(best: float, chunks: int, share: float) -> float:
    """Return the trust in a base's text for one question, [0, 1]: max((best / ln(1 + N) - 1) / 4, share ** 4).

    A BM25 score is the log odds that a text's words give for it (Robertson and Zaragoza 2009), and ln N is about the
    log odds against any one of N texts: the best hit is worth best / ln N words that no other text has. If that is low,
    the question uses other words than the texts, and the best hit is best by chance. A short question cannot score
    high, so a best hit that covers all of it is trusted too.

    Args:
        best: the highest BM25 score, >= 0.
        chunks: N, the number of texts, >= 1.
        share: of the question covered by the best hit, [0, 1].

    >>> [round(trust(best, 999, 0.5), 2) for best in (6.9, 13.8, 20.7, 34.5)]
    [0.06, 0.25, 0.5, 1.0]
    """
    beyond = (best / log(1 + max(chunks, 1)) - 1.0) / _EVIDENCE
    return min(max(beyond, share**_WHOLE), 1.0)
