"""Vectors in a row, as a matrix holds them: what is asked of them, whatever form they are kept in."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

__all__ = ["Array", "VectorParts"]

Array = np.ndarray[Any, Any]


class VectorParts:
    """Vectors of one dimension, unit length, in a row; never changed once made.

    Args:
        vectors: float32 (vectors, dimension).
    """

    def __init__(self, vectors: Array) -> None:
        self._vectors = vectors

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self._vectors)

    def dots(self, query: Array, places: slice | Array | None = None) -> Array:
        """Return the dot product of a vector with each of these, float32.

        Args:
            query: float32 (dimension).
            places: of those that are wanted; None: all.
        """
        wanted: Array = self._vectors if places is None else self._vectors[places]
        return wanted @ query

    def take(self, places: Array) -> VectorParts:
        """Return some of the vectors, in the order of their places; a mask keeps theirs."""
        return VectorParts(self._vectors[places])

    def as_floats(self, places: slice | Array | None = None) -> Array:
        """Return some of the vectors, or all, as float32 (vectors, dimension)."""
        found: Array = self._vectors if places is None else self._vectors[places]
        return found

    @staticmethod
    def joined(some: Sequence[VectorParts]) -> VectorParts:
        """Return the vectors of all of some, in their order."""
        return VectorParts(np.concatenate([one.as_floats() for one in some]))
