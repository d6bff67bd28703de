"""JSON read strictly: what Python's parser would take silently is refused."""

import json

import pytest

from context_engine.core.text.strict_json import DuplicateKey, RefusedJson, read_strict


def test_a_key_twice_is_refused_at_any_depth_and_named() -> None:
    with pytest.raises(DuplicateKey, match="the key 'b' appears twice: keep one") as raised:
        read_strict('{"a": [{"b": 1, "c": 2, "b": 1}]}')
    assert raised.value.key == "b"


@pytest.mark.parametrize("constant", ["NaN", "Infinity", "-Infinity"])
def test_a_number_that_json_lacks_is_refused(constant: str) -> None:
    with pytest.raises(RefusedJson, match=f"{constant} is not a JSON number"):
        read_strict(f'{{"a": {constant}}}')


def test_what_is_no_json_is_python_s_own_error() -> None:
    with pytest.raises(json.JSONDecodeError):
        read_strict("{")


def test_line_ends_inside_a_text_are_accepted_where_the_caller_says_so() -> None:
    text = '{"a": "b\n"}'
    assert read_strict(text, control_characters=True) == {"a": "b\n"}
    with pytest.raises(json.JSONDecodeError):
        read_strict(text)
