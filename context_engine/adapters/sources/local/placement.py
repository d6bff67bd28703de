"""Where documents stand: the class of a document follows from its source's rules and from what it claims."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

from context_engine.core.models import Chunk, Classification

__all__ = ["Place", "SourcePlace", "claimed_by"]


class SourcePlace(NamedTuple):
    """What the configuration says of who may read a source.

    Attributes:
        rules: all of its access rules (`AccessPolicy.rules_of`); "" where it has none.
        classification: the declared one.
    """

    rules: str = ""
    classification: Classification = Classification.INTERNAL


Place = Callable[[str], SourcePlace | None]
"""From a source's id to what is said of it; None where nothing is known."""


def claimed_by(chunks: Iterable[Chunk]) -> Classification | None:
    """Return the highest classification that a chunk of a document claims: a document is placed as a whole."""
    claims = (chunk.classification for chunk in chunks if chunk.classification is not None)
    return max(claims, key=lambda one: one.rank, default=None)
