"""Manners of the command line: one domain need not be named, JSON is readable at a terminal, a shell completes."""

from __future__ import annotations

import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = str(Path(sys.executable).parent / "context-engine")
MANIFEST = "version: 1\ndomain: {name}\nsources: [{{id: {id}, type: bank_sop, adapter: local}}]\n"


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with one domain, OPS, and a document for it."""
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "manifests").mkdir()
    add_domain(tmp_path, "OPS")
    text = "# Passwords\n\nHarbour Bank (HB) asks for a minimum length of 14 characters.\n"
    (tmp_path / "rules.md").write_text(text, encoding="utf-8")
    return tmp_path


def add_domain(bank: Path, name: str) -> None:
    manifest = MANIFEST.format(name=name, id=f"{name.lower()}_sops")
    (bank / "manifests" / f"{name.lower()}.yaml").write_text(manifest, encoding="utf-8")


def run(*args: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(main, list(args), input=stdin)


INGEST = ("ingest", "rules.md", "--source", "ops_sops")
COMMANDS: dict[str, Sequence[str]] = {
    "search": ("search", "minimum length"),
    "context": ("search", "minimum length", "--context"),
    "ingest": INGEST,
    "glossary": ("kb", "glossary"),
    "judge": ("eval", "judge", "minimum length", "--qrels", "mine.jsonl"),
}


@pytest.mark.parametrize("name", COMMANDS)
def test_the_only_domain_need_not_be_named(name: str, bank: Path) -> None:
    assert run(*INGEST).exit_code == 0
    done = run(*COMMANDS[name], stdin="q\n")
    assert done.exit_code == 0, done.output


@pytest.mark.parametrize("name", COMMANDS)
def test_of_several_domains_one_must_be_named_and_they_are_listed(name: str, bank: Path) -> None:
    add_domain(bank, "DESK")
    done = run(*COMMANDS[name])
    assert done.exit_code == 2
    assert "Missing option '--domain' / '-d': name one of DESK, OPS" in done.stderr


def test_the_demo_has_several_domains_and_is_not_built_for_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("XDG_CONFIG_HOME", raising=False)
    done = run("search", "criteria", "--data-dir", str(tmp_path / "data"))
    assert (done.exit_code, "name one of DCE, DESK, NPA, ORM" in done.stderr) == (2, True)
    assert not (tmp_path / "data").exists()


def test_a_missing_domain_is_an_error_object_under_json(bank: Path) -> None:
    add_domain(bank, "DESK")
    done = run("search", "minimum length", "--json")
    assert json.loads(done.stdout)["error"]["code"] == "usage"


def at_a_terminal(*args: str, folder: Path) -> str:
    """What a command writes to a terminal."""
    leader, follower = pty.openpty()
    with subprocess.Popen(
        [sys.executable, "-m", "context_engine", *args], cwd=folder, stdout=follower, stderr=subprocess.DEVNULL
    ) as process:
        os.close(follower)
        written = b""
        while True:
            try:
                part = os.read(leader, 65536)
            except OSError:  # the other end is closed
                break
            if not part:
                break
            written += part
        process.wait(timeout=60)
    os.close(leader)
    return written.decode().replace("\r\n", "\n")


@pytest.mark.slow
@pytest.mark.parametrize("args", [("domains",), ("config", "show")])
def test_json_is_indented_at_a_terminal_and_one_line_in_a_pipe(args: Sequence[str], bank: Path) -> None:
    shown = at_a_terminal(*args, "--json", folder=bank)
    piped = subprocess.run(
        [sys.executable, "-m", "context_engine", *args, "--json"], cwd=bank, capture_output=True, check=True, text=True
    ).stdout
    assert json.loads(shown) == json.loads(piped)
    assert shown == json.dumps(json.loads(piped), indent=2, ensure_ascii=False) + "\n"
    assert piped.count("\n") == 1


@pytest.mark.slow
def test_lines_of_json_stay_lines_at_a_terminal(bank: Path) -> None:
    assert run(*INGEST).exit_code == 0
    (line,) = at_a_terminal("search", "minimum length", "--jsonl", folder=bank).splitlines()
    assert "minimum length" in json.loads(line)["content"]
    whole = at_a_terminal("search", "minimum length", "--json", folder=bank)
    assert json.loads(whole)["chunks"][0]["rank"] == 1
    assert whole.startswith('{\n  "schema_version"')


@pytest.mark.parametrize("shell", ["bash", *(pytest.param(one, marks=pytest.mark.slow) for one in ("zsh", "fish"))])
def test_a_script_is_produced_for_each_shell_of_the_guide(shell: str, tmp_path: Path) -> None:
    guide = (ROOT / "docs/guides/operator.md").read_text(encoding="utf-8")
    assert re.search(rf"_CONTEXT_ENGINE_COMPLETE={shell}_source context-engine", guide)
    # what asks for the version of bash needs a bash
    done = subprocess.run(
        [PROGRAM],
        env={**os.environ, "_CONTEXT_ENGINE_COMPLETE": f"{shell}_source"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=True,
    )
    assert f"_CONTEXT_ENGINE_COMPLETE={shell}_complete" in done.stdout
    assert "context-engine" in done.stdout


@pytest.mark.slow
@pytest.mark.parametrize(("typed", "offered"), [("sea", "search"), ("search --dom", "--domain")])
def test_commands_and_options_are_completed(typed: str, offered: str, tmp_path: Path) -> None:
    words = f"context-engine {typed}"
    asked = {
        "COMP_WORDS": words,
        "COMP_CWORD": str(len(words.split()) - 1),
        "_CONTEXT_ENGINE_COMPLETE": "bash_complete",
    }
    done = subprocess.run(
        [PROGRAM], env={**os.environ, **asked}, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == [f"plain,{offered}"]
