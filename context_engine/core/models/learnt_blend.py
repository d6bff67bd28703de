"""A blend of a candidate's scores that was learnt from a domain's own judged questions, as its setting holds it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

__all__ = ["BLEND_FEATURES", "BlendFeature", "BlendTerm", "LearntBlend"]

BlendFeature = Literal[
    "stage1",
    "stage1_rank",
    "text",
    "text_rank",
    "coverage",
    "cosine",
    "cosine_rank",
    "reranker",
    "reranker_rank",
    "document",
    "document_best",
    "length",
    "length_squared",
]
"""What a term may weigh; `ranking.learnt_blend.features` says what each is."""

BLEND_FEATURES: Final[tuple[BlendFeature, ...]] = get_args(BlendFeature)

Finite = Annotated[float, Field(allow_inf_nan=False)]


class BlendTerm(BaseModel):
    """A feature with its weight: it adds weight * (value - mean) / deviation.

    Attributes:
        weight: of the standardised value.
        mean, deviation: of the feature over the candidates it was learnt on; the deviation is above 0.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: Finite
    mean: Finite
    deviation: Annotated[float, Field(gt=0.0, allow_inf_nan=False)]


class LearntBlend(BaseModel):
    """Weights of a candidate's scores, and the scorers they were learnt with: other scorers have another scale.

    Attributes:
        measured_by: the kind of score that measured stage 1's relevance ("weighted", "bm25", "lexical" ...).
        cosine: the scorer of the cosine: a model, with the adapter in force; None where none is weighed.
        reranker: the model reranker, as `blending.reranker_id` names it; None where none is weighed.
        terms: by feature.
        evidence: the judged questions it was learnt on, and what it gains on questions it was not; no search reads it.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    measured_by: str
    cosine: str | None = None
    reranker: str | None = None
    terms: Annotated[Mapping[BlendFeature, BlendTerm], Field(min_length=1)]
    evidence: Mapping[str, Any] = Field(default_factory=dict)

    def model_post_init(self, _context: Any) -> None:
        """Refuse terms of a score whose scorer is not named, and a scorer that no term weighs."""
        for name, scorer in (("cosine", self.cosine), ("reranker", self.reranker)):
            if (scorer is not None) != (name in self.terms):
                raise ValueError(f"a term for {name!r} and {name!r}, the name of its scorer, belong together")
            if scorer is None and f"{name}_rank" in self.terms:
                raise ValueError(f"a term for '{name}_rank' needs {name!r}, the name of its scorer")
