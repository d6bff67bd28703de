"""A change of what a search was given, and how large it is.

The size of a change is a number of steps, each on the scale of what is changed: what a person would take for one notch.

    a number in [0, 1] (thresholds, weights, boosts)          0.01 is a step
    a count (`stage2_top_k`, `min_chunks`, `max_per_document`)  1 is a step
    the day                                                   a day is a step
    all else                                                  10 steps: a switch, a tier, a condition of the filter, a
                                                              text; on a scale of several places 10 each place

To set what was off, or to take off what was set, is a switch more than the way on its scale: `similarity_threshold` is
off at -1, `mmr_lambda` at 1, `min_chunks` at 0, `max_per_document` at one more than any document has. `auto` counts as
the number that it became. Thresholds may have any value: their steps are those to the nearest one that suffices, and
the value that is named is the plainest with its effect. Weights and boosts have two decimals, as people set them.

Of two changes the one with fewer steps is the smaller; among equal ones that which is first by `ChangeKind`, by the
order of the settings below, by name, by new value as text.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from context_engine.core.models import SearchResult

SWITCH: Final = 10.0
"""Steps of a switch that is turned."""

STAGES: Final = ("filter", "as_of", "expiry", "measure", "dedup", "threshold", "scope", "relevance", "rerank", "select")
"""Stage 2 in its order."""

_DIGITS: Final = 6
_SETTINGS: Final = (
    *("stage2_top_k", "min_relevance_score", "scope_threshold", "similarity_threshold", "max_per_document"),
    *("min_chunks", "dedup_threshold", "dedup_method", "expired", "exact_first", "mmr_lambda", "rerank_weight"),
    *("learnt_blend", "reranking_enabled", "relevance_weight", "authority_weight"),
)
"""Those that let more through come before those that change what counts."""


class AnswerChangeKind(StrEnum):
    """What is changed; of equally large changes the first here is the smaller."""

    SETTING = "setting"
    SOURCE = "source"
    REQUEST = "request"
    TEXT = "text"


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """One change.

    Attributes:
        name: the key of a setting; SOURCE.tier or SOURCE.trust_class; filters or as_of; SOURCE/CHUNK of a text that
            is taken away.
        was, now: JSON values; None for nothing.
        steps: its size.
        stage: the first stage of stage 2 that reads what is changed: what was dropped before stays dropped.
        applied: gives a result with the change, to be computed again.
    """

    kind: AnswerChangeKind
    name: str
    was: Any
    now: Any
    steps: float
    stage: str
    applied: Callable[[SearchResult], SearchResult] = field(compare=False, repr=False)

    @property
    def order(self) -> tuple[float, int, int, str, str]:
        """What sorts changes, the smallest first."""
        place = _SETTINGS.index(self.name) if self.name in _SETTINGS else len(_SETTINGS)
        return self.steps, list(AnswerChangeKind).index(self.kind), place, self.name, str(self.now)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        return {"kind": str(self.kind), "name": self.name, "was": self.was, "now": self.now, "steps": self.steps}


def in_steps(distance: float, step: float = 0.01) -> float:
    """Return a distance in steps, to a millionth of one: equal distances are equal whatever their numbers are.

    >>> in_steps(0.6 - 0.59), in_steps(0.15 - 0.14)
    (1.0, 1.0)
    """
    return round(abs(distance) / step, _DIGITS)
