"""`search --open` and `--html` over real files: the programs started are real ones that write down what they got."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

DOCUMENTS = Path(__file__).parents[1] / "data/documents"
MANIFEST = """
version: 1
domain: POLICY
sources:
  - id: policies
    type: bank_sop
    documents: [{include: "policies/*"}]
  - id: notices
    type: external_official
    documents: [{include: "notices/*"}]
  - id: wiki
    type: bank_sop
    url: "https://wiki.meridian.example/{path}#line={line}"
    documents: [{include: "wiki/*"}]
"""
PASSWORDS = "# Passwords\n\nWhat a password is.\n\n## Minimum length\n\nA password has at least twelve characters.\n"

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform == "win32", reason="the programs are shell scripts")]


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration with documents that are ingested, and no screen and no editor."""
    for name in ("DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "VISUAL", "EDITOR", "CONTEXT_ENGINE_CONFIG_DIR", "COLUMNS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    files = {
        "manifests/policy.yaml": MANIFEST,
        "docs/policies/passwords.md": PASSWORDS,
        "docs/notices/1.txt": "This notice speaks of fees.",
        "docs/wiki/visitors.md": "# Visitors\n\nA visitor wears a badge and is met at the lobby.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    return tmp_path


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Makes a program of a name that writes its arguments to a file, which it returns."""

    def make(name: str) -> Path:
        folder, started = tmp_path / "bin", tmp_path / f"{name}.started"
        folder.mkdir(exist_ok=True)
        (folder / name).write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{started}"\n')
        (folder / name).chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
        return started

    return make


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def search(query: str, *args: str) -> Result:
    return run("search", query, "-d", "POLICY", *args)


def as_a_process(query: str, *args: str) -> subprocess.CompletedProcess[str]:
    """Python looks for browsers once a process."""
    command = [sys.executable, "-m", "context_engine", "search", query, "-d", "POLICY", *args]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def ingested(place: Path) -> None:
    assert run("ingest", str(place / "docs"), "-d", "POLICY").exit_code == 0


@pytest.mark.parametrize(
    ("editor", "arguments"),
    [
        ("nano", "+{line} {file}"),
        ("code", "--goto {file}:{line}"),
        ("hx", "{file}:{line}"),
        ("ours", "{file}"),
    ],
)
def test_a_text_is_opened_at_its_line(
    place: Path, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch, editor: str, arguments: str
) -> None:
    ingested(place)
    file = place / "docs/policies/passwords.md"
    started = program(editor)
    monkeypatch.setenv("EDITOR", editor)
    rank = _rank_of("at least twelve characters")
    result = search("minimum password length", "--open", str(rank))
    assert result.exit_code == 0
    line = next(chunk["metadata"]["line"] for chunk in _chunks() if chunk["rank"] == rank)
    assert PASSWORDS.splitlines()[line - 1] in ("# Passwords", "## Minimum length")
    assert started.read_text().split() == arguments.format(line=line, file=file).split()
    assert f"Opening {file} (line {line})" in result.stderr


def _chunks() -> list[dict[str, Any]]:
    chunks: list[dict[str, Any]] = json.loads(search("minimum password length", "--json").stdout)["chunks"]
    return chunks


def _rank_of(text: str) -> int:
    return next(int(chunk["rank"]) for chunk in _chunks() if text in chunk["content"])


def test_the_editor_may_have_options_and_visual_goes_before(
    place: Path, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ingested(place)
    started = program("vim")
    monkeypatch.setenv("EDITOR", "nano")
    monkeypatch.setenv("VISUAL", "vim -R")
    assert search("minimum password length", "--open", "1").exit_code == 0
    assert started.read_text().splitlines()[:1] == ["-R"]


def test_an_address_is_opened_in_the_browser(
    place: Path, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    ingested(place)
    started = program("browser")
    monkeypatch.setenv("BROWSER", str(place / "bin/browser"))
    result = as_a_process("visitor badge lobby", "--open", "1")
    assert started.read_text().strip() == "https://wiki.meridian.example/wiki/visitors.md#line=1"
    assert (result.returncode, result.stderr) == (0, "Opening https://wiki.meridian.example/wiki/visitors.md#line=1\n")


def test_a_pdf_is_opened_at_its_page(
    place: Path, program: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("pdfplumber", reason="the extra 'documents'")
    file = Path(shutil.copy(DOCUMENTS / "notice-641.pdf", place / "docs/notices"))
    ingested(place)
    started = program("browser")
    monkeypatch.setenv("BROWSER", str(place / "bin/browser"))
    assert as_a_process("outsourcing register", "--open", "1").returncode == 0
    assert started.read_text().strip() == f"{file.as_uri()}#page=2", "the register begins on the second page"


def test_without_a_screen_the_place_is_printed(place: Path) -> None:
    ingested(place)
    result = search("minimum password length", "--open", "1")
    assert result.exit_code == 0
    assert f"No program could be started here. Open {place}/docs/policies/passwords.md (line " in result.stderr


def test_a_file_that_is_gone_is_said_with_where_it_was(place: Path) -> None:
    ingested(place)
    (place / "docs").rename(place / "moved")
    result = search("minimum password length", "--open", "1")
    assert result.exit_code == 2
    assert f"policies/passwords.md is not in {place}/docs any more: ingest the folder again" in result.stderr
    ingested_again = run("ingest", str(place / "moved"), "-d", "POLICY")
    assert ingested_again.exit_code == 0
    assert f"{place}/moved/policies/passwords.md" in search("minimum password length", "--open", "1").stderr


def test_a_rank_that_is_not_there_is_said(place: Path) -> None:
    ingested(place)
    result = search("minimum password length", "--open", "90")
    assert result.exit_code == 2
    assert "--open 90: the answer has " in result.stderr
    assert "confidence" in result.stdout, "the answer itself is printed"


def test_no_output_that_leaves_the_machine_names_a_folder_of_it(place: Path) -> None:
    ingested(place)
    page = place / "answer.html"
    outputs = [
        search("minimum password length", form).stdout for form in ("--json", "--jsonl", "--context", "--explain")
    ]
    assert search("minimum password length", "--html", str(page)).exit_code == 0
    outputs.append(page.read_text())
    assert all("policies/passwords.md" in output for output in outputs)
    assert not [output for output in outputs if str(place) in output]


def test_a_dry_run_remembers_nothing(place: Path) -> None:
    assert run("ingest", str(place / "docs"), "-d", "POLICY", "--dry-run").exit_code == 0
    assert not list(place.rglob("folders.json"))


def test_a_page_that_cannot_be_written_is_said(place: Path) -> None:
    ingested(place)
    (place / "file").write_text("x")
    result = search("minimum password length", "--html", str(place / "file/answer.html"))
    assert result.exit_code == 2
    assert "cannot be written" in result.stderr


def test_a_template_with_an_unknown_field_is_a_configuration_error_that_names_the_known_ones(place: Path) -> None:
    manifest = place / "manifests/policy.yaml"
    manifest.write_text(MANIFEST.replace("{line}", "{lines}"))
    result = search("visitor")
    assert result.exit_code == 2
    message = " ".join(result.stderr.split())
    assert "policy.yaml" in message and "unknown field {lines}" in message
    assert "path, document_id, document_version, title, section, page, line, chunk_id, metadata.NAME" in message


def test_a_template_takes_no_variable(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WIKI_KEY", "secret-of-the-wiki")
    manifest = place / "manifests/policy.yaml"
    manifest.write_text(MANIFEST.replace("https://wiki", "https://${WIKI_KEY}"))
    result = search("visitor")
    assert result.exit_code == 2
    assert "secret-of-the-wiki" not in result.output
