"""A blend of a candidate's scores that was learnt from a domain's own judged questions, as its setting holds it."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field

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

LEAST_DEVIATION: Final = 1e-6
"""A feature that differs by less among all candidates says nothing of any."""
_LARGEST: Final = 1e6

Moderate = Annotated[float, Field(ge=-_LARGEST, le=_LARGEST, allow_inf_nan=False)]
"""So that the sum of what the terms add is always a number."""


class BlendTerm(BaseModel):
    """A feature with its weight: it adds weight * (value - mean) / deviation.

    Attributes:
        weight: of the standardised value.
        mean, deviation: of the feature over the candidates it was learnt on.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    weight: Moderate
    mean: Moderate
    deviation: Annotated[float, Field(ge=LEAST_DEVIATION, allow_inf_nan=False)]


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
        """Refuse terms of a score whose scorer is not named, a scorer that no term weighs, and what no record holds."""
        try:
            json.dumps(self.evidence, allow_nan=False)
        except (TypeError, ValueError, RecursionError) as error:
            raise ValueError(f"evidence is no JSON: {error}") from None
        for name, scorer in (("cosine", self.cosine), ("reranker", self.reranker)):
            if (scorer is not None) != any(term in self.terms for term in (name, f"{name}_rank")):
                raise ValueError(
                    f"a term for {name!r} or '{name}_rank' and {name!r}, the name of its scorer, belong together"
                )
