"""The forms of a vector: floats, bytes, and its first numbers alone."""

from __future__ import annotations

import struct
from array import array
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis.strategies import floats, lists

from context_engine.adapters.sources.stores.vector_form import (
    FirstNumbers,
    bytes_of,
    decoded,
    encoded,
    first_numbers,
    numbers_kept,
    reformed,
)
from context_engine.errors import EmbedderError
from context_engine.testing.fakes import FakeEmbedder

VECTOR = [0.5, -0.5, 0.1, 0.7]
"""0.7 is the largest: 127 * 0.5 / 0.7 = 90.7, 127 * 0.1 / 0.7 = 18.1."""


def test_bytes_are_the_numbers_over_the_largest() -> None:
    assert list(array("b", encoded(VECTOR, "int8"))) == [91, -91, 18, 127]
    assert list(array("b", encoded([-1.0, 0.0], "int8"))) == [-127, 0]
    assert encoded([0.0, 0.0], "int8") == bytes(2)


def test_floats_are_kept_as_they_are() -> None:
    assert array("f", encoded(VECTOR, "float32")).tolist() == array("f", VECTOR).tolist()


def test_what_a_vector_takes() -> None:
    assert (bytes_of(384, "float32"), bytes_of(384, "int8")) == (1536, 384)
    for form in ("float32", "int8"):
        assert len(encoded(VECTOR, form)) == bytes_of(4, form)


def test_the_first_numbers_have_unit_length_again() -> None:
    assert first_numbers([3.0, 4.0, 12.0], 2) == [0.6, 0.8]
    assert first_numbers([0.0, 0.0, 1.0], 2) == [0.0, 0.0]


@pytest.mark.parametrize("form", ["float32", "int8"])
@pytest.mark.parametrize("count", [2, 4])
def test_what_is_made_of_kept_vectors_is_what_would_have_been_kept(form: str, count: int) -> None:
    rows = [VECTOR, [0.8, 0.6, 0.0, 0.0]]
    kept = b"".join(encoded(one, "float32") for one in rows)
    fresh = [first_numbers(one, count) if count < 4 else one for one in rows]
    assert reformed(kept, 4, count, form) == b"".join(encoded(one, form) for one in fresh)  # type: ignore[arg-type]


def test_an_embedder_of_the_first_numbers_has_a_name_of_its_own() -> None:
    whole, short = FakeEmbedder(16), FirstNumbers(FakeEmbedder(16), 8)
    assert (short.model_id, short.dimension) == ("fake-16[:8]", 8)
    asked = whole.embed_query("limit of the desk haircut table buffer")
    assert short.embed_query("limit of the desk haircut table buffer") == first_numbers(asked, 8)
    assert short.embed_documents(["desk", "limit"]) == [
        first_numbers(whole.embed_query(one), 8) for one in ("desk", "limit")
    ]


def test_vectors_that_are_too_short_are_refused() -> None:
    with pytest.raises(
        EmbedderError, match="fake-16 gives vectors of 16 numbers, vector_dimensions asks for the first 32"
    ):
        FirstNumbers(FakeEmbedder(16), 32).embed_query("limit")


@pytest.mark.parametrize(
    ("held", "wanted", "kept"),
    [
        ("m", "m", 384),
        ("m", "m[:256]", 256),
        ("m", "m[:512]", None),
        ("m[:256]", "m[:128]", 128),
        ("m[:256]", "m", None),
        ("m", "n[:256]", None),
        ("m[:256]", "n[:128]", None),
    ],
)
def test_which_vectors_another_models_are_made_of(held: str, wanted: str, kept: int | None) -> None:
    assert numbers_kept(held, wanted, 256 if held.endswith("]") else 384) == kept


class _Batches(FakeEmbedder):
    """Takes questions many at once; it has no other way for them."""

    def embed_query(self, text: str) -> Sequence[float]:
        raise AssertionError(text)

    def embed_queries(self, texts: Sequence[str]) -> Sequence[Sequence[float]]:
        return FakeEmbedder(16).embed_documents(texts)


def test_many_questions_are_asked_at_once_where_the_embedder_takes_them() -> None:
    wanted = [FirstNumbers(FakeEmbedder(16), 8).embed_query(one) for one in ("desk", "limit")]
    assert FirstNumbers(_Batches(16), 8).embed_queries(["desk", "limit"]) == wanted
    assert FirstNumbers(FakeEmbedder(16), 8).embed_queries(["desk", "limit"]) == wanted


@pytest.mark.parametrize("number", [float("nan"), float("inf")])
def test_bytes_of_what_is_no_vector_are_like_no_question(number: float) -> None:
    assert encoded([0.5, number], "int8") == bytes(2)


@pytest.mark.parametrize(
    ("vector", "numbers"),
    [
        ([0.5, -0.25, 0.0], [127, -64, 0]),  # 127 * .25 / .5 = 63.5, rounded to even
        ([-2.0, 1.0], [-127, 64]),
        ([0.0, 0.0], [0, 0]),
        ([float("inf"), 1.0], [0, 0]),
        ([float("nan"), 1.0], [0, 0]),
    ],
)
def test_numbers_in_bytes_are_shares_of_the_greatest(vector: list[float], numbers: list[int]) -> None:
    assert array("b", encoded(vector, "int8")).tolist() == numbers
    assert len(encoded(vector, "float32")) == bytes_of(len(vector), "float32") == 4 * len(vector)
    assert len(numbers) == bytes_of(len(vector), "int8")


@pytest.mark.parametrize(
    ("stored", "wanted", "dimension", "kept"),
    [
        ("m", "m", 384, 384),
        ("m", "m[:256]", 384, 256),
        ("m", "m[:384]", 384, 384),
        ("m", "m[:385]", 384, None),
        ("m[:256]", "m[:128]", 256, 128),
        ("m[:256]", "m", 256, None),
        ("n", "m[:128]", 384, None),
        ("m", "n", 384, None),
    ],
)
def test_fewer_numbers_of_the_same_model_are_made_of_more(
    stored: str, wanted: str, dimension: int, kept: int | None
) -> None:
    assert numbers_kept(stored, wanted, dimension) == kept


def test_vectors_of_a_row_are_reformed_one_by_one() -> None:
    floats = encoded([0.6, 0.0, 0.8], "float32") + encoded([0.0, 3.0, 4.0], "float32")
    found = array("f", reformed(floats, 3, 2, "float32")).tolist()
    assert found == pytest.approx([1.0, 0.0, 0.0, 1.0])
    assert reformed(floats, 3, 3, "float32") == floats


@given(lists(lists(floats(-1, 1, width=16), min_size=3, max_size=3), min_size=1, max_size=3))
def test_vectors_in_bytes_are_the_same_bytes_after_a_store_of_half_precision(vectors: list[list[float]]) -> None:
    assert decoded(b"".join(encoded(vector, "float32") for vector in vectors), 3, "float32") == [
        array("f", vector) for vector in vectors
    ]
    blob = b"".join(encoded(vector, "int8") for vector in vectors)
    halves = [struct.unpack("3e", struct.pack("3e", *vector)) for vector in decoded(blob, 3, "int8")]
    assert b"".join(encoded(vector, "int8") for vector in halves) == blob
