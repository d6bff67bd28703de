"""Files with awkward names through the commands: into the embedded base, into Dify, out of a search."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.testing import FakeDify

pytestmark = [pytest.mark.slow, pytest.mark.skipif(sys.platform != "linux", reason="only here is a name any bytes")]

KEY = "dataset-awkwardnamesecret"
NAMES = {
    b"Gesch\xe4ftsbericht.md": r"Gesch\xe4ftsbericht.md",
    b"two\nlines.md": r"two\x0alines.md",
    "annex\u202edm.md".encode(): r"annex\xe2\x80\xaedm.md",
    b"n" * 252 + b".md": "n" * 252 + ".md",
    b"Policy.md": "Policy.md",
    b"policy.md": "policy.md",
}
MANIFEST = """
version: 1
domain: {domain}
sources:
  - id: {source}
    type: bank_sop
    adapter: {adapter}
    documents: [{{include: "**/*.md"}}]
"""
TO_DIFY = "    connection: dify\n    settings: {indexing_technique: economy}\n"


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    with FakeDify([], api_key=KEY, indexing_s=0.01) as server:
        yield server


@pytest.fixture
def share(dify: FakeDify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "config/connections.yaml": f"dify:\n  base_url: {dify.base_url}\n  api_key: ${{DIFY_API_KEY}}\n",
        "manifests/here.yaml": MANIFEST.format(domain="HERE", source="here", adapter="local"),
        "manifests/there.yaml": MANIFEST.format(domain="THERE", source="there", adapter="dify") + TO_DIFY,
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    docs = tmp_path / "docs"
    docs.mkdir()
    for number, name in enumerate(NAMES):
        (docs / os.fsdecode(name)).write_text(f"Collateral rule number {number} of the Harbour Bank.\n")
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": tmp_path, "CONTEXT_ENGINE_DATA_DIR": tmp_path / "data", "DIFY_API_KEY": KEY}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return docs


def run(*args: str, code: int = 0) -> Result:
    result = CliRunner().invoke(main, list(args))
    assert result.exit_code == code, result.output
    result.output.encode("utf-8")
    return result


def run_json(*args: str) -> Any:
    return json.loads(run(*args, "--json").stdout)


@pytest.mark.parametrize(("domain", "to"), [("HERE", "local"), ("THERE", "dify")])
def test_a_folder_of_awkward_names_is_taken_whole_and_found_unchanged(share: Path, domain: str, to: str) -> None:
    order = ("ingest", "docs", "--domain", domain, "--to", to)
    assert run_json(*order, "--dry-run")["documents"] == len(NAMES)
    written = run_json(*order)
    assert (written["documents"], written["added"], written["skipped"], written["refused"]) == (6, 6, [], [])
    again = run_json(*order, "--force", "--prune")
    assert (again["unchanged"], again["added"], again["removed"]) == (6, 0, 0)
    (share / os.fsdecode(b"Gesch\xe4ftsbericht.md")).unlink()
    assert run_json(*order, "--prune")["removed"] == 1


@pytest.mark.parametrize(("domain", "to"), [("HERE", "local"), ("THERE", "dify")])
def test_a_search_shows_where_a_text_stands(share: Path, dify: FakeDify, domain: str, to: str) -> None:
    run("ingest", "docs", "--domain", domain, "--to", to)
    if to == "dify":
        with (share.parent / "manifests" / "there.yaml").open("a") as manifest:
            manifest.write(f"    dataset_ids: ['{dify.dataset_id('there')}']\n")
    found = run_json("search", "collateral rule", "--domain", domain)
    assert {chunk["metadata"]["source_file"] for chunk in found["chunks"]} == set(NAMES.values())
    assert {chunk["document_id"] for chunk in found["chunks"]} == {name.removesuffix(".md") for name in NAMES.values()}


def test_what_is_said_of_such_a_file_is_one_line(share: Path) -> None:
    (share / "br\udcf6ken\nfile.json").write_text("{")
    result = run("ingest", "docs", "--domain", "HERE", "--source", "here", code=3)
    assert r"br\xf6ken\x0afile.json" in result.output
    assert run_json("chunk", f"docs/{os.fsdecode(b'Gesch') + chr(0xDCE4)}ftsbericht.md")["file"] == (
        r"docs/Gesch\xe4ftsbericht.md"
    )
    gone = run("ingest", "docs/\udce4.md", "--domain", "HERE", code=2)
    assert r"docs/\xe4.md does not exist" in gone.output


def test_a_single_file_is_taken(share: Path) -> None:
    report = run_json("ingest", os.fsdecode(b"docs/Gesch\xe4ftsbericht.md"), "--domain", "HERE")
    assert (report["documents"], report["skipped"]) == (1, [])
