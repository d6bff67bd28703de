"""A sequence of vectors in either stored form, with the products that a matrix needs.

Vectors in bytes stay bytes in memory. They are converted to floats in blocks that fit the processor's cache, so less is
read from memory than with floats, and a product with all vectors takes no longer.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from context_engine.adapters.sources.domain_adapter import DomainAdapter
from context_engine.adapters.sources.local.schema import Model

Array = np.ndarray[Any, Any]
_AT_ONCE: Final = 1024


class VectorParts:
    """Vectors of one dimension and of unit length; immutable.

    Args:
        vectors: float32 or int8 (vectors, dimension).
        lengths: float32 (vectors), the divisor of each vector in bytes; None: they are computed.
    """

    def __init__(self, vectors: Array, lengths: Array | None = None) -> None:
        self._vectors = vectors
        self._lengths = _lengths(vectors) if lengths is None and vectors.dtype == np.int8 else lengths

    @classmethod
    def read(cls, data: bytes, model: Model) -> VectorParts:
        """Return vectors as the base keeps them."""
        kept = np.frombuffer(data, np.int8 if model.form == "int8" else np.float32)
        return cls(kept.reshape(-1, model.dimension))

    def __len__(self) -> int:
        """Return the number of vectors."""
        return len(self._vectors)

    def dots(self, query: Array, places: slice | Array | None = None) -> Array:
        """Return the dot product of a vector with the vectors at some places, float32.

        Args:
            query: float32 (dimension).
            places: None: all places.
        """
        some = self if places is None else self._some(places)
        if some._lengths is None:
            product: Array = some._vectors @ query
            return product
        dots = np.empty(len(some), np.float32)
        for start in range(0, len(some), _AT_ONCE):
            block = slice(start, start + _AT_ONCE)
            np.dot(some._vectors[block].astype(np.float32), query, out=dots[block])
        dots /= some._lengths
        return dots

    def take(self, places: Array) -> VectorParts:
        """Return some of the vectors, in the order of their places; a mask keeps theirs."""
        return self._some(places)

    def as_floats(self, places: slice | Array | None = None) -> Array:
        """Return some of the vectors, or all, as float32 (vectors, dimension)."""
        some = self if places is None else self._some(places)
        if some._lengths is None:
            return some._vectors
        scaled: Array = some._vectors / some._lengths[:, None]
        return scaled

    def _some(self, places: slice | Array) -> VectorParts:
        return VectorParts(self._vectors[places], None if self._lengths is None else self._lengths[places])

    @staticmethod
    def joined(some: Sequence[VectorParts]) -> VectorParts:
        """Return the concatenation of several sequences, at least one, all of one form."""
        lengths = [part._lengths for part in some if part._lengths is not None]
        return VectorParts(
            np.concatenate([part._vectors for part in some]), np.concatenate(lengths) if lengths else None
        )


def _lengths(vectors: Array) -> Array:
    """Return the length of each vector in bytes, float32; 1 for a zero vector."""
    lengths = np.empty(len(vectors), np.float32)
    for start in range(0, len(vectors), _AT_ONCE):
        block = vectors[start : start + _AT_ONCE].astype(np.float32)
        lengths[start : start + len(block)] = np.sqrt(np.einsum("ij,ij->i", block, block))
    lengths[lengths == 0.0] = 1.0
    return lengths


class OneProduct(VectorParts):
    """Vectors that cache their product with the latest question; for one thread.

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
        """Return the dot product of a vector with the vectors at some places. The product with all must not be
        modified.
        """
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


_BLOCK: Final = 8192
"""Vectors mapped at once: the memory for them stays bounded, however many there are."""


class AdaptedParts(VectorParts):
    """Vectors as stored, with their cosines under an adapter; immutable.

    Args:
        parts: the vectors.
        lengths: float32 (vectors), the length of each mapped vector (`mapped_lengths`).
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
        products: Array = self._parts.dots(query, places) * (self._scale if places is None else self._scale[places])
        return products

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
