from __future__ import annotations

import pickle
from pathlib import Path

import pytest

from context_engine.errors import ConfigError, MissingVariable
from context_engine.settings.files import FromVariable, Interpolator, plain


def fill(value: object, tmp_path: Path = Path("/nowhere"), **env: str) -> object:
    return Interpolator(env, tmp_path, "f.yaml", files=True).fill(value)


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


def test_no_default_is_advised_for_a_secret() -> None:
    with pytest.raises(MissingVariable) as raised:
        fill({"dify": {"api_key": "${KEY}"}})
    assert str(raised.value) == "f.yaml: dify.api_key: the variable KEY is not set: set it"


@pytest.mark.parametrize("text", ["${", "${A", "${A:-${B}}", "${}", "${1A}", "${A:d}", "${A B}"])
def test_a_form_that_cannot_be_read(text: str) -> None:
    with pytest.raises(ConfigError) as raised:
        fill({"k": text}, A="1", B="2")
    assert raised.value.key == "k" and not isinstance(raised.value, MissingVariable)


def test_a_file_is_read_anew_and_its_last_line_break_dropped(tmp_path: Path) -> None:
    filler = Interpolator({}, tmp_path, "f.yaml", files=True)
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


def test_a_file_is_read_for_a_connection_alone(tmp_path: Path) -> None:
    (tmp_path / "key").write_text("contents")
    with pytest.raises(ConfigError, match="a file can be read in connections only") as raised:
        Interpolator({}, tmp_path, "f.yaml").fill({"k": "${file:key}"})
    assert raised.value.key == "k"
    assert "contents" not in str(raised.value)


def test_a_fixed_text_takes_neither_but_a_literal_one() -> None:
    filler = Interpolator({"A": "1"}, Path(), "f.yaml", files=True, fixed=lambda location: location[-1] == "title")
    for text in ("${A}", "x ${A:-b}", "${file:key}", "${NONE}"):
        with pytest.raises(ConfigError, match="title: takes no variable or file"):
            filler.fill({"title": text})
    assert filler.fill({"title": "$${A}", "other": "${A}"}) == {"title": "${A}", "other": "1"}


def test_what_came_from_a_variable_knows_its_expression() -> None:
    filled = fill("x-${A:-b}", A="secret")
    assert isinstance(filled, FromVariable)
    assert (filled, filled.written) == ("x-secret", "x-${A:-b}")
    again = pickle.loads(pickle.dumps(filled))
    assert (again, again.written) == (filled, filled.written)


KEYS = [
    "dataset-4Kq9wLk3vT0pX77aM2nB8",
    "app-4Kq9wLk3vT0pX77aM2nB8",
    "sk-proj-4Kq9wLk3vT0pX77aM2nB8",
    "ghp_4Kq9wLk3vT0pX77aM2nB8xyz",
    "AKIAIOSFODNN7EXAMPLE",
    "Bearer 4Kq9wLk3vT0pX77aM2nB8",
    "xK9f2LmQ8vT3pZ7wR4nB6yHd",
    "9f86d081884c7d659a2feaa0c55ad015",
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("form", ["${%s}", "${%s:-x}", "${file:%s}", "${file:/run/secrets/%s}", "${%s"])
def test_a_key_that_was_pasted_into_a_form_is_not_repeated(key: str, form: str) -> None:
    with pytest.raises(ConfigError) as raised:
        fill({"dify": {"api_key": form % key}})
    said = str(raised.value)
    assert key not in said
    assert key.split("-")[-1].split()[-1] not in said
    assert "dify.api_key" in said
    if form.endswith("}"):
        belongs = "the path of a file belongs" if "file:" in form else "the name of a variable belongs"
        assert belongs in said or "must hold NAME" in said


@pytest.mark.parametrize("name", ["DIFY_API_KEY", "MERIDIAN_HARBOUR_DIFY_UAT_KEY_2024_V2", "dify_base_url2"])
def test_an_ordinary_name_is_still_named(name: str) -> None:
    with pytest.raises(MissingVariable, match=f"the variable {name} is not set"):
        fill({"k": f"${{{name}}}"})
    with pytest.raises(MissingVariable, match=f"the file /run/secrets/{name} cannot be read"):
        fill({"k": f"${{file:/run/secrets/{name}}}"})
