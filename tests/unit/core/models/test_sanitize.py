"""Text and data of others, made such that every output can hold it."""

import json
import math
import uuid
from datetime import UTC, date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.core.models import chunk_from_dict, is_valid_text, sanitized_id, sanitized_mapping, sanitized_text
from context_engine.core.models.sanitize import MOST_DEPTH, MOST_VALUES


def nested(levels, inner="core"):
    value = inner
    for _ in range(levels):
        value = {"in": value}
    return value


def depth(value):
    levels = 0
    while isinstance(value, dict):
        value, levels = value.get("in"), levels + 1
    return levels


def test_text_is_made_valid_and_stays_as_long():
    assert sanitized_text("limit\ud800 5\x00 %") == "limit\ufffd 5\ufffd %"
    assert is_valid_text("审批 😀")
    assert not is_valid_text("\udfff")


def test_ids_stay_apart():
    assert sanitized_id("a\ud800") == r"a\ud800"
    assert sanitized_id("a\ud801\x00") == r"a\ud801\x00"
    assert sanitized_id("SOP-1#2") == "SOP-1#2"


def test_sound_data_is_handed_back_as_it_is():
    data = {"a": 1, "b": [1, 2.5, None, True, {"c": "审批"}], "day": date(2026, 3, 2), "nan": math.nan}
    sound, said = sanitized_mapping(data)
    assert sound is data
    assert said == ()


def test_what_lies_too_deep_is_left_out_and_said():
    sound, said = sanitized_mapping(nested(900))
    assert depth(sound) == MOST_DEPTH
    assert said == (f"is nested deeper than {MOST_DEPTH} levels: the rest is left out",)
    assert sanitized_mapping(nested(MOST_DEPTH))[1] == ()


def test_a_ring_ends():
    ring = {"name": "ring"}
    ring["self"] = ring
    both = [ring, ring]
    ring["both"] = both
    sound, said = sanitized_mapping(ring)
    assert sound["name"] == "ring"
    assert said
    json.dumps(sound)


def test_too_many_values_and_too_long_a_text_are_cut_and_said():
    many, said = sanitized_mapping({str(number): number for number in range(3 * MOST_VALUES)})
    assert len(many) == MOST_VALUES
    assert said == ("is too large: the rest is left out",)
    long, said = sanitized_mapping({"a": "x" * 50, "b": "y" * 50, "c": 1}, most_characters=60)
    assert long == {"a": "x" * 50, "b": "y" * 8}
    assert len(said) == 1
    assert sum(map(len, sanitized_mapping({"a": ["z" * 20] * 10}, most_characters=100)[0]["a"])) == 99


def test_numbers_no_json_holds_are_absent():
    sound, said = sanitized_mapping({"huge": 10**5000, "id": 10**300, "nan": math.inf})
    assert sound == {"huge": None, "id": 10**300, "nan": math.inf}
    assert said == ("holds a number of over 300 digits, which counts as absent",)


def test_keys_are_text():
    sound, said = sanitized_mapping({1: "a", "1": "b", (2, 3): "c", "k\ud800": "d"})
    assert sound == {"1": "a", "(2, 3)": "c", "k\ufffd": "d"}
    assert "has two keys with the same text, of which the first is kept" in said


class Silent:
    def __str__(self):
        raise RuntimeError("no text")


def test_other_objects_are_their_text():
    given_id = uuid.UUID(int=7)
    sound, said = sanitized_mapping({"id": given_id, "silent": Silent(), "price": Decimal("1.5"), "at": (1, {2})})
    assert sound == {"id": str(given_id), "silent": "Silent", "price": 1.5, "at": [1, [2]]}
    assert said == ("holds a UUID, which was converted to text", "holds a Silent, which was converted to text")


def test_numbers_and_arrays_of_numpy_are_plain():
    numpy = pytest.importorskip("numpy")
    sound, _ = sanitized_mapping({"one": numpy.float32(0.5), "many": numpy.arange(3), "flag": numpy.bool_(True)})
    assert json.dumps(sound) == '{"one": 0.5, "many": [0, 1, 2], "flag": true}'


ATOMS = st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters(), max_size=8) | st.dates()
KEYS = st.text(st.characters(), max_size=4) | st.integers() | st.none() | st.floats()
DATA = st.recursive(
    ATOMS | st.binary(max_size=4) | st.just(10**400),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4) | st.tuples(inner),
    max_leaves=20,
)


@given(st.dictionaries(KEYS, DATA, max_size=6), st.integers(1, 40), st.integers(1, 40))
def test_whatever_is_given_can_be_written_and_is_sound_at_once(data, most_values, most_characters):
    sound, _ = sanitized_mapping(data, most_values=most_values, most_characters=most_characters)
    json.dumps(sound, ensure_ascii=False, default=date.isoformat).encode()
    assert sanitized_mapping(sound)[1] == ()


@pytest.mark.parametrize(
    "awkward",
    [
        {"metadata": nested(900)},
        {"extra_key": nested(900)},
        {"metadata": {"a\ud800": "b\udfff"}},
        {"_provenance": {"extra": nested(900)}},
        {"position": 10**5000, "ttl_seconds": 10**5000, "fetched_at": 10**5000},
        {"score": 10**5000},
        {"title": nested(900)},
        {"metadata": {"tier": 10**5000, "authority_tier": 10**5000}},
        {"seen": datetime(2026, 3, 2, tzinfo=UTC), 5: "five", "obj": Silent()},
    ],
)
def test_a_chunk_dict_of_any_content_is_read_and_can_be_written(awkward):
    notices = []
    chunk = chunk_from_dict({"content": "text", "chunk_id": "c", **awkward}, notices)
    json.dumps(chunk.to_dict(), ensure_ascii=False).encode()
    assert all(is_valid_text(notice.message) for notice in notices)
    json.dumps([notice.to_dict() for notice in notices], ensure_ascii=False, allow_nan=False).encode()


def test_chunk_ids_that_are_no_text_stay_apart():
    ids = [chunk_from_dict({"content": "text", "chunk_id": one}).chunk_id for one in ("a\ud800", "a\ud801")]
    assert ids == [r"a\ud800", r"a\ud801"]
