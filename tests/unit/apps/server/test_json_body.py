"""Only JSON that every reader takes for the same gets through."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from context_engine.apps.server.body import check_json

WHOLE = st.integers(min_value=-(2**63), max_value=2**63 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"))
VALUES = st.recursive(
    st.none() | st.booleans() | WHOLE | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inside: st.lists(inside, max_size=5) | st.dictionaries(TEXT, inside, max_size=5),
    max_leaves=20,
)


@given(VALUES, st.booleans())
def test_what_json_can_say_gets_through(value: Any, ascii_only: bool) -> None:
    assert check_json(json.dumps(value, ensure_ascii=ascii_only).encode()) is None


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"{",
        b"{} {}",
        b"{'a': 1}",
        b"\xff\xfe{}",
        b'{"a": "\xc3"}',
        b"NaN",
        b"-Infinity",
        b"1e999",
        b"9223372036854775808",
        b"-9223372036854775809",
        b"1" * 5000,
        b'{"a": 1, "a": 1}',
        b'{"b": {"a": 1, "\\u0061": 2}}',
        b"[" * 65 + b"]" * 65,
        b'{"a":' * 65 + b"1" + b"}" * 65,
        b"[" * 100_000,
        b"[" * 100_000 + b"]" * 100_000,
        b'"\\ud800"',
        b'{"\\udc00": 1}',
        b'"a\\u0000b"',
        b'["a\nb"]',
    ],
)
@pytest.mark.usefixtures("collector_off")
def test_what_readers_disagree_on_is_refused(body: bytes) -> None:
    assert check_json(body)


@pytest.mark.parametrize(
    "body",
    [b"9223372036854775807", b"-9223372036854775808", b"[" * 64 + b"]" * 64, b'"\\ud83d\\ude00"'],
)
def test_the_bounds_themselves_are_taken(body: bytes) -> None:
    assert check_json(body) is None


def test_a_long_flat_body_is_not_a_deep_one() -> None:
    assert check_json(json.dumps([{} for _ in range(1000)]).encode()) is None


def test_a_key_that_comes_again_after_many_others_is_found_at_once() -> None:
    body = json.dumps({f"k{number}": 1 for number in range(50_000)})[:-1] + ', "k49999": 2}'
    assert "'k49999' appears twice" in (check_json(body.encode()) or "")
