"""What goes into stage 2: the plan of the search and the answers of stage 1."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from context_engine.core.engine.search_plan import SearchPlan
from context_engine.core.models import Chunk, Key, RawAnswer, SourceSpec


class Reranked(NamedTuple):
    """What a model reranker gave.

    Attributes:
        scores: [0, 1], by identity.
        adapter: the id of the adapter that it compared vectors under; None for none.
    """

    scores: Mapping[Key, float]
    adapter: str | None = None


RerankStep = Callable[[str, Sequence[tuple[Key, Chunk]]], Reranked | None]
"""Scores candidates in [0, 1] by identity; None for "no opinion"; raises RerankerError."""


@dataclass(frozen=True, slots=True)
class StageTwoInput:
    """Everything stage 2 depends on, but for the reranker's scores.

    Attributes:
        plan: the request, sources, settings and clock reading of the search.
        answers: of the sources that gave one.
    """

    plan: SearchPlan
    answers: tuple[RawAnswer, ...]

    def by_source(self) -> list[tuple[SourceSpec, RawAnswer]]:
        """Return each answer with its source's declaration, in the order of the manifest."""
        answered = {answer.source_id: answer for answer in self.answers}
        return [(spec, answered[spec.id]) for spec in self.plan.specs if spec.id in answered]
