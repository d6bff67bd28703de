"""The forms that vectors are kept in: 32-bit floats, or one byte a number.

A cosine reads a vector's direction alone, so of a vector v in bytes only round(127 v / max |v|) is kept, number by
number, and whoever reads it makes it of unit length again. A number is off by max |v| / 254 at most, hence a cosine
with a unit vector by less than max |v| * sqrt(dimension) / 127.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from math import isfinite, sqrt
from typing import Final, Literal

VectorForm = Literal["float32", "int8"]

_HIGHEST: Final = 127


def bytes_of(dimension: int, form: VectorForm) -> int:
    """Return how many bytes a vector takes."""
    return dimension if form == "int8" else 4 * dimension


def encoded(vector: Sequence[float], form: VectorForm) -> bytes:
    """Return a vector as it is kept: little-endian 32-bit floats, or signed bytes, which of no finite vector are 0."""
    if form == "float32":
        return array("f", vector).tobytes()
    numbers = array("f", vector).tolist()
    if not isfinite(sum(numbers)):
        return bytes(len(numbers))
    top = max(map(abs, numbers)) or 1.0
    return array("b", [round(_HIGHEST * one / top) for one in numbers]).tobytes()


def first_numbers(vector: Sequence[float], count: int) -> list[float]:
    """Return the first `count` numbers of a vector, rounded to 32 bits, as a vector of unit length.

    >>> first_numbers([0.6, 0.0, 0.8], 2)
    [1.0, 0.0]
    """
    numbers = array("f", vector[:count]).tolist()
    length = sqrt(sum(one * one for one in numbers))
    return [one / length for one in numbers] if length else numbers


def reformed(floats: bytes, dimension: int, count: int, form: VectorForm) -> bytes:
    """Return vectors kept as 32-bit floats in another form, of each its first `count` numbers.

    Args:
        floats: the vectors of one row, one after the other.
        dimension: numbers of each.
        count: at most that many.
        form: the form returned.
    """
    numbers = array("f")
    numbers.frombytes(floats)
    vectors = (numbers[start : start + dimension] for start in range(0, len(numbers), dimension))
    kept = (one if count == dimension else first_numbers(one, count) for one in vectors)
    return b"".join(encoded(one, form) for one in kept)
