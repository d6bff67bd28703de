"""A file that takes long is named, whether or not there is a terminal."""

import io
import json
import time

import pytest
from click.testing import CliRunner
from rich.console import Console

from context_engine.apps.cli import main, progress
from context_engine.apps.cli.progress import busy, progress_bar
from context_engine.ingest import run


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    """What takes 50 ms is long."""
    monkeypatch.setattr(progress, "_SLOW_S", 0.05)
    monkeypatch.setattr(progress, "_TICK_S", 0.01)


def waited_for(condition):
    deadline = time.monotonic() + 10
    while not condition() and time.monotonic() < deadline:
        time.sleep(0.01)
    return condition()


def test_without_a_terminal_a_slow_file_is_a_line_once(capsys):
    said = ""

    def seen(text):
        nonlocal said
        said += capsys.readouterr().err
        return text in said

    with progress_bar("Ingesting …") as show:
        show(0, 2, "quick.md")
        show(1, 2, "sub/slow\x1b.pdf")
        assert waited_for(lambda: seen("slow"))
        time.sleep(0.1)
        show(2, 2, "")
    seen("")
    assert said.splitlines() == ["Ingesting …", "sub/slow .pdf takes longer than 0.05 s …"]


def test_at_a_terminal_a_slow_file_stands_behind_the_bar(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(
        progress, "progress_console", lambda: Console(file=written, force_terminal=True, width=100, color_system=None)
    )
    with progress_bar("Ingesting …") as show:
        show(0, 2, "quick.md")
        show(1, 2, "slow.pdf")
        assert waited_for(lambda: "slow.pdf" in written.getvalue())
    assert "quick.md" not in written.getvalue()


def test_nothing_is_said_of_a_run_that_never_begins(capsys):
    with progress_bar("Ingesting …"):
        time.sleep(0.1)
    assert capsys.readouterr().err == ""


def test_json_on_stdout_holds_none_of_it(tmp_path, monkeypatch):
    said: list[str] = []
    monkeypatch.setattr(progress, "note", lambda text, real=progress.note: (real(text), said.append(text)))

    def read_until_it_is_said(*args, real=run.read_all):
        for read in real(*args):
            waited_for(lambda: any("takes longer than" in one for one in said))
            yield read

    monkeypatch.setattr(run, "read_all", read_until_it_is_said)
    runner = CliRunner()
    assert runner.invoke(main, ["init", str(tmp_path)]).exit_code == 0
    monkeypatch.chdir(tmp_path)
    result = runner.invoke(
        main, ["ingest", "documents", "--domain", "HANDBOOK", "--data-dir", str(tmp_path / "data"), "--json"]
    )
    assert json.loads(result.stdout)["documents"] == 2
    assert "takes longer than" in result.stderr


def at_a_terminal(monkeypatch):
    written = io.StringIO()
    monkeypatch.setattr(
        progress, "progress_console", lambda: Console(file=written, force_terminal=True, width=100, color_system=None)
    )
    return written


def test_work_without_a_count_shows_a_spinner_at_a_terminal(monkeypatch):
    written = at_a_terminal(monkeypatch)
    with busy("Verifying …"):
        assert waited_for(lambda: "Verifying …" in written.getvalue())


def test_quiet_work_is_shown_only_if_it_takes_long(monkeypatch):
    written = at_a_terminal(monkeypatch)
    with busy("Searching …", quiet=True):
        assert waited_for(lambda: "Searching …" in written.getvalue())
    monkeypatch.setattr(progress, "_SLOW_S", 60)
    written = at_a_terminal(monkeypatch)
    with busy("Searching …", quiet=True):
        pass
    assert written.getvalue() == ""


def test_without_a_terminal_work_is_a_line_and_quiet_work_nothing(capsys):
    with busy("Verifying …"):
        pass
    with busy("Searching …", quiet=True), progress_bar("Exporting …", quiet=True) as show:
        show(1, 2, "")
    assert capsys.readouterr().err.splitlines() == ["Verifying …"]
