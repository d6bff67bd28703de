"""The funnel of a search as a picture: one bar for each step, as long as what is left of the candidates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from context_engine.service.contract.explanation import ExplainedStage

WIDTH: Final = 680
ROW: Final = 26
_LABEL: Final = 190
_NUMBERS: Final = 70
_STEPS: Final = {
    "recall": "found by the sources",
    "filter": "keep the filter",
    "as_of": "in force on the day",
    "expiry": "not refused for their age",
    "measure": "measured against the question",
    "dedup": "after merging of duplicates",
    "threshold": "reach the similarity threshold",
    "scope": "within the domain's scope",
    "relevance": "relevant enough",
    "rerank": "ranked by the reranker",
    "select": "returned",
}


class FunnelBar(NamedTuple):
    """A step with the geometry of its bar.

    Attributes:
        entered, left: candidates before and after the step.
        x, y, width: of the bar, in units of the picture.
    """

    name: str
    words: str
    entered: int
    left: int
    x: int
    y: int
    width: int

    @property
    def removed(self) -> int:
        """The candidates that the step removed or merged."""
        return self.entered - self.left


def funnel_bars(stages: Sequence[ExplainedStage]) -> tuple[FunnelBar, ...]:
    """Return the bars of a funnel, from the first step to the last."""
    most = max((stage.entered for stage in stages), default=0) or 1
    room = WIDTH - _LABEL - _NUMBERS
    return tuple(
        FunnelBar(
            name=stage.name,
            words=_STEPS.get(stage.name, stage.name.replace("_", " ")),
            entered=stage.entered,
            left=stage.left,
            x=_LABEL,
            y=place * ROW,
            width=max(round(stage.left / most * room), 2 if stage.left else 0),
        )
        for place, stage in enumerate(stages)
    )
