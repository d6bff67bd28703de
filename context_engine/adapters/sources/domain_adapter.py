"""An adapter of a domain: two linear maps that adapt a model's vectors to the language of a bank.

A question's vector q is mapped to q @ query, a passage's vector p to p @ passage; the cosine of both is the score.
Stored vectors need not be rewritten, because (q @ query) . (p @ passage) = (q @ query @ passage.T) . p. Only the length
of p @ passage is stored in addition, one number per vector.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from context_engine.core.concurrency.forking import cached_property
from context_engine.core.models import VectorAdapter, adapter_name, scorer_name

Array = np.ndarray[Any, Any]
_LARGEST: Final = 1e6
"""Of a number of a map; those that are learnt are about 1. Squares of much larger ones are not 32-bit floats."""


class DomainAdapter:
    """Two maps over the vectors of one model; immutable.

    Args:
        model_id: the model whose vectors are mapped.
        query: float32 (dimension, dimension), applied to a question's vector from the right.
        passage: the same for a passage's vector.
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
        """Its name, of the model's name and both maps (`adapter_name`)."""
        return adapter_name(self.model_id, self.as_bytes())

    @property
    def scorer_id(self) -> str:
        """The scorer id of its cosines, which cannot be compared with the cosines of the model alone."""
        return scorer_name(self.model_id, self.adapter_id)

    def as_bytes(self) -> bytes:
        """Return both maps as little-endian 32-bit floats, the query's first."""
        return self.query.astype("<f4").tobytes() + self.passage.astype("<f4").tobytes()

    @classmethod
    def of(cls, adapter: VectorAdapter) -> DomainAdapter:
        """Convert a vector adapter to this class; an instance of this class is returned unchanged."""
        return adapter if isinstance(adapter, DomainAdapter) else cls(adapter.model_id, adapter.query, adapter.passage)

    @classmethod
    def from_bytes(cls, model_id: str, data: bytes, dimension: int) -> DomainAdapter:
        """Restore an adapter from the result of `as_bytes`.

        Raises:
            ValueError: the data are not two maps of this dimension, or `check` refuses them.
        """
        query, passage = np.frombuffer(data, "<f4").reshape(2, dimension, dimension)
        adapter = cls(model_id, query, passage)
        adapter.check()
        return adapter

    def check(self) -> None:
        """Refuse maps that can make a cosine infinite or NaN.

        Raises:
            ValueError: a number of a map is not finite, or too large.
        """
        if not all((np.abs(numbers) <= _LARGEST).all() for numbers in (self.query, self.passage)):
            raise ValueError(f"every number of an adapter's maps must lie in [-{_LARGEST:g}, {_LARGEST:g}]")

    def asked(self, query: Array | Sequence[float]) -> Array:
        """Return the question's vector for dot products with unmapped passage vectors, float32; divide the product by
        the length of the mapped passage.
        """
        mapped = np.asarray(query, np.float32) @ self.query
        length = float(np.linalg.norm(mapped))
        products: Array = (mapped / length if length > 0.0 else mapped) @ self.passage.T
        return products.astype(np.float32)

    def lengths(self, passages: Array) -> Array:
        """Return the length of each mapped passage vector, float32, for rows of shape (vectors, dimension)."""
        lengths: Array = np.linalg.norm(passages @ self.passage, axis=1)
        return lengths.astype(np.float32)

    def cosines(self, asked: Array | Sequence[float], passages: Array) -> Array:
        """Return the cosine of a question with each mapped passage vector, float32; 0 for a mapped vector of length 0.

        The products have 64 bits, so that a cosine does not depend on the other rows.

        Args:
            asked: from `asked`.
            passages: float32 (vectors, dimension), unmapped.
        """
        rows = passages.astype(np.float64)
        lengths = np.linalg.norm(rows @ self.passage.astype(np.float64), axis=1)
        dots = rows @ np.asarray(asked, np.float64)
        quotients: Array = np.divide(dots, lengths, out=np.zeros_like(dots), where=lengths > 0.0)
        return quotients.astype(np.float32)

    def best_cosines(
        self, asked: Array | Sequence[float], parts: Sequence[tuple[int, Sequence[float]]]
    ) -> dict[int, float]:
        """Return the cosine of a question with each row; of several vectors of a row the nearest counts.

        Args:
            asked: from `asked`.
            parts: rows and vectors, unmapped.
        """
        passages = np.array([vector for _, vector in parts], np.float32).reshape(-1, self.dimension)
        best: dict[int, float] = {}
        for (row, _), cosine in zip(parts, self.cosines(asked, passages).tolist(), strict=True):
            best[row] = max(cosine, best.get(row, cosine))
        return best
