"""The stored forms of vectors: 32-bit floats, or one byte per number.

A cosine depends only on a vector's direction. So a vector v in bytes is stored as round(127 v / max |v|), and a reader
scales it back to unit length. The error of a number is at most max |v| / 254, and the error of a cosine with a unit
vector is less than max |v| * sqrt(dimension) / 127.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from math import isfinite, sqrt
from typing import Final, Literal

from context_engine.core.protocols import Embedder, QueryBatchEmbedder
from context_engine.errors import EmbedderError, StoreVersionMismatch

VectorForm = Literal["float32", "int8"]
_HIGHEST: Final = 127


def bytes_of(dimension: int, form: VectorForm) -> int:
    """Return how many bytes a vector takes."""
    return dimension if form == "int8" else 4 * dimension


def encoded(vector: Sequence[float], form: VectorForm) -> bytes:
    """Return a vector in stored form: little-endian 32-bit floats, or signed bytes, which are never all 0 for a finite
    vector.
    """
    if form == "float32":
        return array("f", vector).tobytes()
    numbers = array("f", vector).tolist()
    if not isfinite(sum(numbers)):
        return bytes(len(numbers))
    top = max(map(abs, numbers)) or 1.0
    return array("b", [round(_HIGHEST * number / top) for number in numbers]).tobytes()


def decoded(blob: bytes, dimension: int, form: VectorForm) -> list[array[float]]:
    """Return the vectors of one row as 32-bit floats; those stored in bytes have unit length.

    >>> decoded(encoded([0.6, 0.0, -0.8], "int8"), 3, "int8") == decoded(encoded([3.0, 0.0, -4.0], "int8"), 3, "int8")
    True
    """
    starts = range(0, len(blob), bytes_of(dimension, form))
    if form == "float32":
        return [array("f", blob[start : start + 4 * dimension]) for start in starts]
    return [array("f", first_numbers(array("b", blob[start : start + dimension]), dimension)) for start in starts]


def first_numbers(vector: Sequence[float], count: int) -> list[float]:
    """Return the first `count` numbers of a vector, rounded to 32 bits, as a vector of unit length.

    >>> first_numbers([0.6, 0.0, 0.8], 2)
    [1.0, 0.0]
    """
    numbers = array("f", vector[:count]).tolist()
    length = sqrt(sum(number * number for number in numbers))
    return [number / length for number in numbers] if length else numbers


def reformed(floats: bytes, dimension: int, count: int, form: VectorForm) -> bytes:
    """Return vectors stored as 32-bit floats in another form, each cut to its first `count` numbers.

    Args:
        floats: the vectors of one row, one after the other.
        dimension: numbers per vector.
    """
    numbers = array("f")
    numbers.frombytes(floats)
    vectors = (numbers[start : start + dimension] for start in range(0, len(numbers), dimension))
    kept = (vector if count == dimension else first_numbers(vector, count) for vector in vectors)
    return b"".join(encoded(vector, form) for vector in kept)


_NAME: Final = re.compile(r"(.*)\[:([0-9]+)\]", re.DOTALL)


class FirstNumbers:
    """An `Embedder` that cuts the vectors of another to their first numbers. As thread-safe as the other.

    Args:
        embedder: the other embedder.
        dimension: numbers kept of each vector.
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
    """Return an embedder whose vectors have this many numbers; None: the embedder itself."""
    return embedder if dimensions is None else FirstNumbers(embedder, dimensions)


def numbers_kept(stored: str, wanted: str, dimension: int) -> int | None:
    """Return how many leading numbers of one model's vector form the other model's vector; None if they do not.

    Args:
        held: name of the model that made the vectors.
        wanted: name of the other model.
        dimension: of the stored vectors.

    >>> numbers_kept("m", "m[:256]", 384), numbers_kept("m[:256]", "m", 256), numbers_kept("m", "m", 384)
    (256, None, 384)
    """
    if stored == wanted:
        return dimension
    cut = _NAME.fullmatch(wanted)
    of_held = _NAME.fullmatch(stored)
    model = of_held[1] if of_held else stored
    return int(cut[2]) if cut and cut[1] == model and int(cut[2]) <= dimension else None


def other_vectors(stored: tuple[str, int], copied: tuple[str, int]) -> StoreVersionMismatch:
    """Return the error for vectors that do not compare with those of the store that they are copied to.

    Args:
        stored, copied: model and dimension of each.
    """
    return StoreVersionMismatch(
        f"its vectors have {stored[1]} numbers of {stored[0]!r}, those to copy have {copied[1]} of {copied[0]!r}: they "
        "do not compare. Copy to an empty store, or ingest with the other embedder"
    )
