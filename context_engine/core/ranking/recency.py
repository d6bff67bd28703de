"""Newer texts first where relevance is about equal: a bounded deduction from the relevance of older ones."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date
from typing import Final

from context_engine.core.models import Chunk
from context_engine.core.models.chunk_dict import to_date

HALF_LIFE_DAYS: Final = 730.0
"""After two years a text has half of the newness of one that came into force today."""

_UNKNOWN: Final = 0.5


def newness(day: date | None, as_of: date) -> float:
    """Return 0.5 ** (age / HALF_LIFE_DAYS), (0, 1]; 0.5 without a date, 1 for a date after `as_of`.

    >>> newness(date(2023, 1, 1), date(2024, 12, 31))
    0.5
    """
    return _UNKNOWN if day is None else 0.5 ** (max((as_of - day).days, 0) / HALF_LIFE_DAYS)


def newer_first(relevance: Sequence[float], chunks: Sequence[Chunk], as_of: date, weight: float) -> list[float]:
    """Return the relevance less `weight` times the share of newness that each text has lost.

    So a text comes before another only if its relevance is at most `weight` lower.

    Args:
        relevance: [0, 1] each.
        chunks: dated by the day from which they are in force, else by the date of their document.
        weight: [0, 0.2]; 0 changes nothing.
    """
    if not weight:
        return list(relevance)
    lost = (1.0 - newness(_day(chunk), as_of) for chunk in chunks)
    return [max(value - weight * share, 0.0) for value, share in zip(relevance, lost, strict=True)]


def _day(chunk: Chunk) -> date | None:
    return chunk.effective_from or to_date(chunk.own_field("date"))
