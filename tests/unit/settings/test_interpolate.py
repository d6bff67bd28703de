from __future__ import annotations

from pathlib import Path

import pytest

from context_engine.errors import ConfigError, MissingVariable
from context_engine.settings.interpolate import FromVariable, Interpolator, plain


def fill(value: object, tmp_path: Path = Path("/nowhere"), **env: str) -> object:
    return Interpolator(env, tmp_path, "f.yaml").fill(value)


@pytest.mark.parametrize(
    ("text", "filled"),
    [
        ("${A}", "1"),
        ("x-${A}-${B}", "x-1-2"),
        ("${NONE:-d}", "d"),
        ("${EMPTY:-d}", "d"),
        ("${EMPTY}", ""),
        ("${A:-d}", "1"),
        ("${NONE:-}", ""),
        ("${NONE:-a:-b}", "a:-b"),
        ("$${A}", "${A}"),
        ("$${A} and ${A}", "${A} and 1"),
        ("$A $ 100", "$A $ 100"),
    ],
)
def test_each_form(text: str, filled: str) -> None:
    assert fill(text, A="1", B="2", EMPTY="") == filled


def test_only_text_leaves_are_filled_and_the_input_stays() -> None:
    data = {"${A}": ["${A}", 1, None, {"x": "${A}"}]}
    assert fill(data, A="1") == {"${A}": ["1", 1, None, {"x": "1"}]}
    assert data == {"${A}": ["${A}", 1, None, {"x": "${A}"}]}


def test_what_a_variable_holds_is_not_filled_again() -> None:
    assert fill("${A}", A="${B}", B="secret") == "${B}"


def test_a_missing_variable_is_named_with_file_and_key() -> None:
    with pytest.raises(MissingVariable) as raised:
        fill({"sources": [{"id": "sops", "dataset_ids": ["${DS}"]}]})
    assert str(raised.value) == (
        "f.yaml: sources.sops.dataset_ids.0: the variable DS is not set: set it, or write ${DS:-default}"
    )


@pytest.mark.parametrize("text", ["${", "${A", "${A:-${B}}", "${}", "${1A}", "${A:d}", "${A B}"])
def test_a_form_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        fill({"k": text}, A="1", B="2")
    assert raised.value.key == "k" and not isinstance(raised.value, MissingVariable)


def test_a_file_is_read_anew_and_its_last_line_break_dropped(tmp_path: Path) -> None:
    filler = Interpolator({}, tmp_path, "f.yaml")
    (tmp_path / "key").write_text("one\n")
    assert filler.fill("Bearer ${file:key}") == "Bearer one"
    (tmp_path / "key").write_text("two")
    assert filler.fill(f"${{file:{tmp_path / 'key'}}}") == "two"


def test_a_file_that_cannot_be_a_value(tmp_path: Path) -> None:
    with pytest.raises(MissingVariable, match="cannot be read"):
        fill("${file:none}", tmp_path)
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="is not UTF-8"):
        fill("${file:binary}", tmp_path)
    (tmp_path / "large").write_bytes(b"x" * 65_537)
    with pytest.raises(ConfigError, match="too large"):
        fill("${file:large}", tmp_path)


def test_numbers_and_flags_out_of_variables() -> None:
    filled = fill({"a": ["${N}", "${F}", "${T}", "7"]}, N="7", F="true", T="[1]")
    assert plain(filled) == {"a": [7, True, "[1]", "7"]}
    assert isinstance(filled["a"][0], FromVariable)  # type: ignore[index]
