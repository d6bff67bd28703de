"""An embedder that gives the first numbers of another's vectors, for models that are trained for it (matryoshka).

Such vectors do not compare with the whole ones, so the model has a name of its own: `model[:256]`. By it a base, its
scores, calibrations and adapters tell them apart.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

from context_engine.adapters.sources.local.vector_form import first_numbers
from context_engine.core.protocols import Embedder, QueryBatchEmbedder
from context_engine.errors import EmbedderError

_NAME: Final = re.compile(r"(.*)\[:([0-9]+)\]", re.DOTALL)


class FirstNumbers:
    """An `Embedder`. Safe for several threads, as the one it asks.

    Args:
        embedder: the one that is asked.
        dimension: numbers kept of each of its vectors.
    """

    def __init__(self, embedder: Embedder, dimension: int) -> None:
        self._embedder, self._dimension = embedder, dimension

    @property
    def model_id(self) -> str:
        """The embedder's, and how many numbers are kept."""
        return f"{self._embedder.model_id}[:{self._dimension}]"

    @property
    def dimension(self) -> int:
        """Numbers of a vector."""
        return self._dimension

    def embed_query(self, text: str) -> Sequence[float]:
        """Return the vector of a query.

        Raises:
            EmbedderError: the model failed, or its vectors are shorter.
        """
        return self._first(self._embedder.embed_query(text))

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return the vector of each query.

        Raises:
            EmbedderError: as `embed_query`.
        """
        if isinstance(self._embedder, QueryBatchEmbedder):
            return [self._first(vector) for vector in self._embedder.embed_queries(texts)]
        return [self.embed_query(text) for text in texts]

    def embed_documents(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        """Return one vector per text.

        Raises:
            EmbedderError: as `embed_query`.
        """
        return [self._first(vector) for vector in self._embedder.embed_documents(texts)]

    def _first(self, vector: Sequence[float]) -> list[float]:
        if len(vector) < self._dimension:
            raise EmbedderError(
                f"{self._embedder.model_id} gives vectors of {len(vector)} numbers, vector_dimensions asks for the "
                f"first {self._dimension}: lower it, or set it to null"
            )
        return first_numbers(vector, self._dimension)


def shortened(embedder: Embedder, dimensions: int | None) -> Embedder:
    """Return an embedder whose vectors have that many numbers; None: itself."""
    return embedder if dimensions is None else FirstNumbers(embedder, dimensions)


def numbers_kept(held: str, wanted: str, dimension: int) -> int | None:
    """Return how many numbers of a vector by one model make one by another, None where they do not make it.

    Args:
        held: name of the model that made the vectors.
        wanted: name of the other.
        dimension: of the vectors that are held.

    >>> numbers_kept("m", "m[:256]", 384), numbers_kept("m[:256]", "m", 256), numbers_kept("m", "m", 384)
    (256, None, 384)
    """
    if held == wanted:
        return dimension
    cut = _NAME.fullmatch(wanted)
    of_held = _NAME.fullmatch(held)
    whole = of_held[1] if of_held else held
    return int(cut[2]) if cut and cut[1] == whole and int(cut[2]) <= dimension else None
