"""How a question is prepared for a search, and what its kind changes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from context_engine.core.models.deployment_settings import Flag, SettingsGroup

Unit = Annotated[float, Field(strict=True, ge=0.0, le=1.0, allow_inf_nan=False)]
Seconds = Annotated[float, Field(strict=True, gt=0.0, le=600.0, allow_inf_nan=False)]
QuestionKind = Literal["code", "parts", "plain"]
"""A question that names a code or a section, one of several parts, any other."""


class QuestionSettings(SettingsGroup):
    """Settings of the question, before any source is called."""

    query_expansion: Flag = Field(True, description="Also search for a term's other names in the domain's glossary.")
    query_expansion_weight: Unit = Field(1.0, description="Weight of such a name; the user's own words weigh 1.")
    multi_query: Flag = Field(False, description="Also search for each part of a question that has several.")
    word_segmenter: Literal["none", "lindera"] = Field(
        "none",
        description="What cuts questions in Chinese, Japanese and Korean into words: none (all pairs of characters), "
        "lindera (extra cjk).",
    )
    query_refinement: Flag = Field(True, description="Run the query refiner, if one is configured.")
    query_refiner_timeout_s: Seconds = Field(
        3.0, description="Seconds for the query refiner, at most half of deadline_s; then the query is searched as is."
    )
    scope_by_kind: Mapping[QuestionKind, Unit] = Field(
        default_factory=dict,
        description="Scope thresholds by the kind of question, in place of scope_threshold where that is auto: "
        '{"code": 0.2}; code: it names a code or a section, parts: it has several parts, plain: any other.',
    )
