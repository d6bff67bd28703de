"""Outputs that stay small, and say what was cut."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from context_engine.apps.dify.dify_json import fitted, json_size
from context_engine.core.context.fence import fence, parse_fences

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=8) | st.dictionaries(st.text(max_size=8), inner, max_size=8),
    max_leaves=40,
)


def test_what_fits_is_left_alone() -> None:
    value = {"text": "x" * 100}
    assert fitted("json", value).value is value and fitted("json", value).cut is None


def test_the_longest_texts_are_cut_first() -> None:
    value = {"short": "keep me", "long": "x" * 5000, "longer": "y" * 9000}
    fit = fitted("json", value, limit=6 * 1024)
    assert fit.value["short"] == "keep me" and value["long"] == "x" * 5000
    assert fit.value["long"] == "x" * 2048 + " … [cut: 5000 characters in all]"
    assert fit.cut == "json was cut to stay below 6 KiB: 2 text(s) at 2048 characters"


def test_characters_count_as_they_are_escaped() -> None:
    assert json_size("\u4e2d") == len('"\\u4e2d"')
    fit = fitted("text", "\u4e2d" * 2000, limit=6 * 1024)
    assert json_size(fit.value) <= 6 * 1024 and fit.cut is not None


def test_lists_are_cut_where_texts_do_not_help() -> None:
    fit = fitted("json", {"fates": [{"chunk_id": str(number)} for number in range(20_000)]}, limit=64 * 1024)
    assert len(fit.value["fates"]) == 2000 and "1 list(s) at 2000 entries" in str(fit.cut)


def test_long_lists_go_before_passages_of_usual_length() -> None:
    fates = [{"chunk_id": str(number)} for number in range(10_000)]
    value = {"chunks": [{"content": "x" * 4000}] * 8, "fates": fates}
    fit = fitted("json", value, limit=128 * 1024)
    assert fit.value["chunks"] == value["chunks"] and len(fit.value["fates"]) == 2000


def test_what_cannot_be_cut_is_left_out() -> None:
    fit = fitted("json", {str(number): number for number in range(5000)}, limit=1024)
    assert fit.value is None and fit.cut == "json was left out: it cannot be cut to stay below 1 KiB"


@given(JSON)
def test_nothing_is_ever_longer_than_the_limit(value: object) -> None:
    fit = fitted("json", value, limit=300)
    assert json_size(fit.value) <= 300
    assert (fit.cut is None) == (json_size(value) <= 300)


def test_a_fenced_text_that_is_cut_stays_closed() -> None:
    nonce = "0123456789abcdef"
    fit = fitted("result", [fence("word " * 220_000, nonce), "word " * 220_000])
    (inside,) = parse_fences(fit.value[0], nonce)
    assert inside.startswith("word word") and inside.endswith("characters in all]")
    assert fit.value[1].endswith("characters in all]")
    longest = fence("word " * 220_000, "n" * 64)
    assert len(parse_fences(fitted("result", [longest]).value[0], "n" * 64)) == 1
