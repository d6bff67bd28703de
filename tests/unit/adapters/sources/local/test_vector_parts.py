"""Vectors in bytes answer as floats do, in whatever order and part they are asked for."""

from __future__ import annotations

import pytest

pytest.importorskip("numpy", reason="the extra 'vectors'")

import numpy as np

from context_engine.adapters.sources.local.schema import Model
from context_engine.adapters.sources.local.vector_parts import VectorParts
from context_engine.adapters.sources.stores.vector_form import encoded

MODEL = Model("m", 2, "int8")


def parts(count: int, dimension: int = 24) -> tuple[np.ndarray, VectorParts]:
    vectors = np.random.default_rng(5).standard_normal((count, dimension)).astype(np.float32)
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    kept = b"".join(encoded(one, "int8") for one in vectors.tolist())
    return vectors, VectorParts.read(kept, Model("m", dimension, "int8"))


def test_what_is_read_has_unit_length() -> None:
    """[127, -127] are equal numbers; [0, 0] is a text without a word."""
    read = VectorParts.read(bytes([127, 129, 0, 0, 0, 127]), MODEL)
    half = 0.5**0.5
    assert read.as_floats().tolist() == [[pytest.approx(half), pytest.approx(-half)], [0.0, 0.0], [0.0, 1.0]]
    assert read.dots(np.array([1.0, 0.0], np.float32)).tolist() == [pytest.approx(half), 0.0, 0.0]


@pytest.mark.parametrize("count", [1, 1024, 2500])
def test_products_are_nearly_those_of_floats(count: int) -> None:
    vectors, kept = parts(count)
    query = vectors[0]
    assert len(kept) == count
    assert kept.dots(query) == pytest.approx(vectors @ query, abs=0.01)
    assert kept.dots(query)[0] == pytest.approx(1.0, abs=1e-4)
    assert kept.dots(query) == pytest.approx(kept.as_floats() @ query, abs=1e-6)


@pytest.mark.parametrize("places", [slice(3, 9), np.array([7, 2, 2, 0]), np.arange(12) % 3 == 0])
def test_a_part_is_the_part_of_the_whole(places: slice | np.ndarray) -> None:
    vectors, kept = parts(12)
    query = vectors[4]
    whole = kept.dots(query)
    assert kept.dots(query, places) == pytest.approx(whole[places], abs=1e-6)
    assert np.array_equal(kept.as_floats(places), kept.as_floats()[places])
    if not isinstance(places, slice):
        taken = kept.take(places)
        assert np.array_equal(taken.as_floats(), kept.as_floats()[places])
        assert taken.dots(query) == pytest.approx(whole[places], abs=1e-6)


def test_vectors_of_one_form_are_joined_in_their_order() -> None:
    _, kept = parts(6)
    nothing = VectorParts.read(b"", Model("m", 24, "int8"))
    again = VectorParts.joined([nothing, kept.take(np.arange(2)), kept.take(np.arange(2, 6))])
    assert np.array_equal(again.as_floats(), kept.as_floats()) and len(again) == 6
