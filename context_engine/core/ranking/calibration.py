"""The rule that turns the signals of a base's own questions and of off-topic ones into a scope threshold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

__all__ = ["Signals", "calibrated"]

_OUTSIDE: Final = 0.95
_OWN: Final = 0.05
_STRONG: Final = 0.5


class Signals(NamedTuple):
    """The best absolute relevance of each question.

    Attributes:
        own: passages of the base, each without its own chunk: what the rest of the base says of it.
        judged: questions whose answers were judged to be in the base.
        outside: off-topic questions.
    """

    own: Sequence[float]
    judged: Sequence[float]
    outside: Sequence[float]


def calibrated(signals: Signals) -> tuple[float, float]:
    raise NotImplementedError
