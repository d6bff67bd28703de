"""Vectors as an adapter maps them, told from what is stored: a dot product over the length of the mapped vector."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from context_engine.adapters.sources.local.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local.vector_parts import Array, VectorParts

_BLOCK: Final = 8192
"""Vectors mapped at once: the memory for them stays bounded, however many there are."""


class AdaptedParts(VectorParts):
    """The cosines of vectors under an adapter, and the vectors themselves as they are stored; never changed once made.

    Args:
        parts: the vectors.
        lengths: float32 (vectors), the length of each once mapped (`mapped_lengths`).
    """

    def __init__(self, parts: VectorParts, lengths: Array) -> None:
        self._parts, self.mapped = parts, lengths
        # A vector that is mapped to nothing is like no question.
        self._scale = np.divide(1.0, lengths, out=np.zeros_like(lengths), where=lengths > 0.0)

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self._parts)

    def dots(self, query: Array, places: slice | Array | None = None) -> Array:
        """Return the cosine of a question, mapped and folded (`DomainAdapter.asked`), with each vector as mapped."""
        found: Array = self._parts.dots(query, places) * (self._scale if places is None else self._scale[places])
        return found

    def take(self, places: Array) -> VectorParts:
        """Return some of the vectors, in the order of their places."""
        return AdaptedParts(self._parts.take(places), self.mapped[places])

    def as_floats(self, places: slice | Array | None = None) -> Array:
        """Return some of the vectors, or all, as they are stored."""
        return self._parts.as_floats(places)


def mapped_lengths(adapter: DomainAdapter, parts: VectorParts) -> Array:
    """Return the length of each vector once mapped, float32 (vectors)."""
    blocks: Sequence[Array] = [
        adapter.lengths(parts.as_floats(slice(start, start + _BLOCK))) for start in range(0, len(parts), _BLOCK)
    ]
    return np.concatenate(blocks) if blocks else np.empty(0, np.float32)
