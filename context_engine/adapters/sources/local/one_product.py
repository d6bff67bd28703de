"""Vectors whose product with a question is made once, however many sources of a base are searched for it."""

from __future__ import annotations

from context_engine.adapters.sources.local.vector_parts import Array, VectorParts


class OneProduct(VectorParts):
    """Vectors that keep their product with the latest question; for one thread.

    Args:
        parts: the vectors.
    """

    def __init__(self, parts: VectorParts) -> None:
        self._parts = parts
        self._asked, self._product = b"", parts.as_floats(slice(0, 0))

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self._parts)

    def dots(self, query: Array, places: slice | Array | None = None) -> Array:
        """Return the dot product of a vector with each of these; that with all of them must not be changed."""
        if places is not None:
            return self._parts.dots(query, places)
        asked = query.tobytes()
        if asked != self._asked:
            self._asked, self._product = asked, self._parts.dots(query)
        return self._product

    def take(self, places: Array) -> VectorParts:
        """Return some of the vectors, in the order of their places."""
        return self._parts.take(places)

    def as_floats(self, places: slice | Array | None = None) -> Array:
        """Return some of the vectors, or all, as floats."""
        return self._parts.as_floats(places)
