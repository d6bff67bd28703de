from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from rich.text import Text

from context_engine.apps.cli import console
from context_engine.apps.web.inert import clean
from context_engine.errors import ConfigError

StdoutIn = Callable[[str], io.TextIOWrapper]


@pytest.fixture
def stdout_in(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], io.TextIOWrapper]:
    """Makes stdout a strict stream of an encoding."""

    def replace(encoding: str) -> io.TextIOWrapper:
        stream = io.TextIOWrapper(io.BytesIO(), encoding=encoding, errors="strict")
        monkeypatch.setattr(sys, "stdout", stream)
        return stream

    return replace


def written(stream: io.TextIOWrapper) -> str:
    stream.flush()
    return stream.buffer.getvalue().decode(stream.encoding)  # type: ignore[attr-defined]


def test_a_text_cannot_steer_a_terminal() -> None:
    assert clean("a\x1b[31mb\x07c\u202ed\x9be\n审") == "a [31mb c d e\n审"


def test_signs_become_plain_ones_where_the_terminal_has_no_others(stdout_in: StdoutIn) -> None:
    stdout = stdout_in("ascii")
    console.out().print(Text("§4 · limit … ✓ 审"))
    assert written(stdout).rstrip() == "s.4 - limit ... y ?"


@pytest.mark.parametrize("encoding", ["ascii", "latin-1", "utf-8"])
def test_json_is_the_same_value_in_every_encoding(stdout_in: StdoutIn, encoding: str) -> None:
    stdout = stdout_in(encoding)
    value = {"query": "审批 😀 é"}
    console.print_json_line(json.dumps(value, ensure_ascii=False))
    assert json.loads(written(stdout)) == value


def test_a_pipe_is_wide_and_follows_columns(monkeypatch: pytest.MonkeyPatch, stdout_in: StdoutIn) -> None:
    stdout_in("utf-8")
    monkeypatch.delenv("COLUMNS", raising=False)
    assert console.out().width == console.PIPE_WIDTH
    for columns, width in (("100", 100), ("7", 40), ("0", console.PIPE_WIDTH), ("wide", console.PIPE_WIDTH)):
        monkeypatch.setenv("COLUMNS", columns)
        assert console.out().width == width


def test_markup_in_a_text_is_text(stdout_in: StdoutIn) -> None:
    stdout = stdout_in("utf-8")
    console.out().print("[red]limit[/red] [/] :smile:")
    assert written(stdout) == "[red]limit[/red] [/] :smile:\n"


def test_an_error_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    console.error_line("first\nsecond\x1b[2J " + "x" * 500)
    shown = capsys.readouterr().err
    assert shown.count("\n") == 1
    assert shown.startswith("error: first second [2J xxx")


def test_words_are_cleaned_and_a_text_stays_as_it_is(capsys: pytest.CaptureFixture[str]) -> None:
    console.print_line("limit\x1b[2J", "bold")
    console.print_line(console.styled(("access: ", "dim"), "analyst\x07"))
    console.print_line()
    console.print_line(Text("as it is"))
    assert capsys.readouterr().out == "limit [2J\naccess: analyst \n\nas it is\n"


def test_the_version_of_a_schema_comes_first(capsys: pytest.CaptureFixture[str]) -> None:
    console.publish({"records": []})
    assert capsys.readouterr().out == '{"schema_version": 1, "records": []}\n'


def test_a_file_that_cannot_be_read_or_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "binary").write_bytes(b"\xff")
    with pytest.raises(ConfigError) as unread:
        console.read_file(tmp_path / "missing", "--key")
    with pytest.raises(ConfigError) as undecoded:
        console.read_text(tmp_path / "binary")
    with pytest.raises(ConfigError) as unwritten:
        console.written(tmp_path / "binary" / "file", "text")
    assert (unread.value.file, unread.value.key) == (str(tmp_path / "missing"), "--key")
    assert undecoded.value.file == str(tmp_path / "binary")
    assert unwritten.value.file == str(tmp_path / "binary" / "file")
