"""An adapter of a domain: two linear maps that turn a model's vectors into those of the bank's own language.

A question's vector q is compared as q @ query, a passage's vector p as p @ passage, by the cosine of the two. So a
stored vector is never written anew: (q @ query) . (p @ passage) = (q @ query @ passage.T) . p, and what is left of the
passage's side is the length of p @ passage, one number a vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Final

import numpy as np

from context_engine.adapters.sources.local.records import name_of
from context_engine.adapters.sources.local.vector_parts import Array, VectorParts
from context_engine.core.models import scorer_name

_LARGEST: Final = 1e6
"""Of a number of a map; those that are learnt are about 1. Squares of much larger ones are not 32-bit floats."""


class DomainAdapter:
    """Two maps over the vectors of one model; a value.

    Args:
        model_id: the model whose vectors they are for.
        query: float32 (dimension, dimension), applied to a question's vector from the right.
        passage: the same for a passage's.
    """

    def __init__(self, model_id: str, query: Array, passage: Array) -> None:
        self.model_id = model_id
        self.query = np.ascontiguousarray(query, np.float32)
        self.passage = np.ascontiguousarray(passage, np.float32)

    @property
    def dimension(self) -> int:
        """The length of the vectors."""
        return len(self.query)

    @cached_property
    def adapter_id(self) -> str:
        """Its name, of the model's name and both maps (`name_of`)."""
        return name_of(self.model_id, self.as_bytes())

    @property
    def scorer_id(self) -> str:
        """What its cosines are known by: they do not compare with those of the model alone."""
        return scorer_name(self.model_id, self.adapter_id)

    def as_bytes(self) -> bytes:
        """Return both maps as little-endian 32-bit floats, the query's first."""
        return self.query.astype("<f4").tobytes() + self.passage.astype("<f4").tobytes()

    @classmethod
    def from_bytes(cls, model_id: str, data: bytes, dimension: int) -> DomainAdapter:
        """Return what `as_bytes` gave.

        Raises:
            ValueError: the data are not two maps of this dimension, or not as `check` wants them.
        """
        query, passage = np.frombuffer(data, "<f4").reshape(2, dimension, dimension)
        found = cls(model_id, query, passage)
        found.check()
        return found

    def check(self) -> None:
        """Refuse maps under which a cosine may be no number.

        Raises:
            ValueError: a number of a map is not finite, or too large.
        """
        if not all((np.abs(one) <= _LARGEST).all() for one in (self.query, self.passage)):
            raise ValueError(f"every number of an adapter's maps must lie in [-{_LARGEST:g}, {_LARGEST:g}]")

    def asked(self, query: Array) -> Array:
        """Return what the dot product with a passage's own vector is taken of, before its length: float32."""
        mapped = query @ self.query
        length = float(np.linalg.norm(mapped))
        found: Array = (mapped / length if length > 0.0 else mapped) @ self.passage.T
        return found.astype(np.float32)

    def lengths(self, passages: Array) -> Array:
        """Return the length of each mapped passage vector, float32, for rows of shape (vectors, dimension)."""
        found: Array = np.linalg.norm(passages @ self.passage, axis=1)
        return found.astype(np.float32)


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
