"""The funnel of a search as a picture: one bar for each step, as long as what is left of the candidates."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import count
from typing import Final, NamedTuple

from context_engine.service.contract.explanation import ExplainedStage

WIDTH: Final = 340
ROW: Final = 36
"""Units of the picture, which is as wide as a phone."""

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
        y, width: of the bar, in units of the picture; `y` is None if the picture leaves the step out, because it
            removed nothing.
    """

    name: str
    words: str
    entered: int
    left: int
    y: int | None
    width: int

    @property
    def removed(self) -> int:
        """The candidates that the step removed or merged."""
        return self.entered - self.left


def funnel_bars(stages: Sequence[ExplainedStage]) -> tuple[FunnelBar, ...]:
    """Return the bars of a funnel, from the first step to the last."""
    most = max((stage.entered for stage in stages), default=0) or 1
    ends = (stages[0], stages[-1]) if stages else ()
    places = count()
    return tuple(
        FunnelBar(
            name=stage.name,
            words=_STEPS.get(stage.name, stage.name.replace("_", " ")),
            entered=stage.entered,
            left=stage.left,
            y=next(places) * ROW if stage in ends or stage.entered != stage.left else None,
            width=max(round(stage.left / most * WIDTH), 2 if stage.left else 0),
        )
        for stage in stages
    )
