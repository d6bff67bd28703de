"""How a base searches: the weights of its parts, and how two rankings become one.

The defaults were measured on 2 788 questions over 13 012 passages of financial regulation, R@10 / MAP@10 (see
tests/benchmarks/bench_quality.py): the text alone .798 / .661, of which siblings are +.003 / +.003; merged by weight
with the vectors of a small model .813 / .685. Neutral there: neighbours, windows of long texts, headings put before a
text that is embedded. A boost of titles costs .005.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal

from context_engine.core.models import Settings
from context_engine.errors import ConfigError

__all__ = ["MergeMethod", "SearchOptions"]

MergeMethod = Literal["weighted", "rrf", "rrf_rerank"]


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchOptions:
    """How one base searches; the same for all its sources, so that their scores are comparable.

    Attributes:
        pairs_weight: of BM25 over adjacent stemmed words, against the body's.
        head_weight: of titles, headings and metadata.
        section_weight: of BM25 over the whole section a chunk stands in.
        sibling_weight: of the best score in the same section, the chunk's own included, among the candidates.
        neighbour_weight: of the scores of the chunks before and after it, where they are candidates.
        merge_method: how text and vectors become one ranking: the weighted sum of their scores, or the sum of
            1 / (rrf_k + rank). "rrf_rerank" is "rrf", and a model reranker after it.
        keyword_weight, vector_weight: of the text score over the best possible one, and of the cosine.
        rrf_k: of reciprocal rank fusion.
        title_boost: added for a title and headings that hold all words of the query; a share of them, a share of it.
        definition_boost: added where the chunk defines a term of the query (its metadata's `defines`).
        depth: candidates taken from each of text and vectors before they are merged, at least.
        approximate_from: vectors from which a search without a selective filter looks at the nearest cells only.
        probe: share of the vectors that such a search looks at, (0, 1].
    """

    pairs_weight: float = 0.5
    head_weight: float = 0.2
    section_weight: float = 0.2
    sibling_weight: float = 0.4
    neighbour_weight: float = 0.0
    merge_method: MergeMethod = "weighted"
    keyword_weight: float = 0.5
    vector_weight: float = 0.5
    rrf_k: int = 60
    title_boost: float = 0.0
    definition_boost: float = 0.0
    depth: int = 60
    approximate_from: int = 200_000
    probe: float = 0.1

    def __post_init__(self) -> None:
        """Refuse weights that merge nothing."""
        if not self.keyword_weight + self.vector_weight > 0.0:
            raise ConfigError("keyword_weight and vector_weight are both 0: give one of them a weight")

    @classmethod
    def of(cls, settings: Settings) -> SearchOptions:
        """Return what the settings say."""
        return cls(
            **{one.name: getattr(settings, one.name) for one in fields(cls) if one.name in Settings.model_fields}
        )
