"""What a vector in bytes may be off by, whatever the vector."""

from __future__ import annotations

from math import sqrt

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from context_engine.adapters.sources.local.schema import Model
from context_engine.adapters.sources.local.vector_parts import VectorParts
from context_engine.adapters.sources.stores.vector_form import encoded, first_numbers, reformed

NUMBERS = st.floats(-1.0, 1.0, width=32)
PAIRS = st.integers(2, 48).flatmap(lambda size: arrays(np.float32, (2, size), elements=NUMBERS))


def unit(vector: np.ndarray) -> np.ndarray:
    length = float(np.linalg.norm(vector.astype(np.float64)))
    return (vector / length).astype(np.float32) if length > 1e-3 else np.eye(1, len(vector), dtype=np.float32)[0]


@given(PAIRS)
def test_a_cosine_is_off_by_less_than_its_bound(pair: np.ndarray) -> None:
    vector, query = map(unit, pair)
    kept = VectorParts.read(encoded(vector.tolist(), "int8"), Model("m", len(vector), "int8"))
    bound = float(np.abs(vector).max()) * sqrt(len(vector)) / 127
    assert abs(float(kept.dots(query)[0]) - float(vector @ query)) <= bound + 1e-6


@given(PAIRS)
def test_bytes_read_and_kept_again_are_the_same(pair: np.ndarray) -> None:
    once = encoded(unit(pair[0]).tolist(), "int8")
    again = VectorParts.read(once, Model("m", pair.shape[1], "int8")).as_floats()[0]
    assert encoded(again.tolist(), "int8") == once


@given(PAIRS, st.integers(1, 48))
def test_what_is_made_of_floats_is_what_the_model_would_have_given(pair: np.ndarray, count: int) -> None:
    vector = unit(pair[0]).tolist()
    count = min(count, len(vector))
    fresh = first_numbers(vector, count) if count < len(vector) else vector
    assert reformed(encoded(vector, "float32"), len(vector), count, "int8") == encoded(fresh, "int8")
