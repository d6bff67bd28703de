"""`audit why` over a ledger and over a saved answer, on a bank of three documents."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main

MANIFEST = """
version: 1
domain: ORM
sources:
  - id: sops
    type: bank_sop
    documents: [{include: "*.md", doc_type: sop_document}]
  - id: web
    type: general_web
    documents: [{include: "web/*.txt"}]
settings: SETTINGS
"""
pytestmark = pytest.mark.slow
QUERY = "report a loss event"


@pytest.fixture(autouse=True)
def bank(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Path]:
    """A folder with one domain whose searches are recorded, as the current directory."""
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name in ("CONTEXT_ENGINE_AUDIT_KEY", "CONTEXT_ENGINE_AUDIT_FORMER_KEYS"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_LEDGER", str(tmp_path / "data/audit/ledger.db"))
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_MODE", "required")
    monkeypatch.chdir(tmp_path)
    for name, text in {
        "documents/a.md": "# 1 Losses\n\nA loss event must be reported within 24 hours.\n",
        "documents/b.md": "# 1 Incidents\n\nAn incident is an event without a loss.\n",
        "documents/web/c.txt": "Somebody on the web says that losses need no report.\n",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    keep(tmp_path, "text")
    ok("ingest", "documents", "-d", "ORM")
    yield tmp_path


def keep(bank: Path, form: str) -> None:
    (bank / "manifests").mkdir(exist_ok=True)
    (bank / "manifests/orm.yaml").write_text(MANIFEST.replace("SETTINGS", f"{{audit_query: {form}}}"), "utf-8")


def run(*args: str) -> Result:
    return CliRunner().invoke(main, list(args))


def ok(*args: str) -> Any:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in args else result.stdout


def searched(*args: str) -> dict[str, Any]:
    """A search, as published."""
    found: dict[str, Any] = ok("search", QUERY, "-d", "ORM", "--json", *args)
    return found


def dropped(answer: dict[str, Any]) -> dict[str, Any]:
    """The chunk that came first beyond the number asked for."""
    beyond = [fate for fate in answer["fates"] if fate["reason"] == "beyond_top_k"]
    return min(beyond, key=lambda fate: fate["value"])  # type: ignore[no-any-return]


def test_a_chunk_that_was_not_shown_and_what_would_have_shown_it() -> None:
    answer = searched("--top-k", "1")
    chunk = dropped(answer)["chunk_id"]
    told = ok("audit", "why", answer["search_id"], chunk, "--json")
    assert (told["schema_version"], told["same"], told["fate"]["reason"]) == (1, True, "beyond_top_k")
    smallest = told["changes"]["smallest"]
    assert smallest["changes"] == [{"kind": "setting", "name": "stage2_top_k", "was": 1, "now": 2, "steps": 1.0}]
    text = run("audit", "why", answer["search_id"], chunk)
    assert text.exit_code == 0
    assert "was dropped at select: beyond the number asked for, place 2 (limit 1)." in text.stdout
    assert "With stage2_top_k 2 instead of 1 it would have been shown at rank 2." in text.stdout
    assert "No key is set" in text.stderr
    first = answer["chunks"][0]["_provenance"]["extra"]["chunk_id"]
    assert "was shown at rank 1." in ok("audit", "why", answer["search_id"], first)


def test_a_saved_answer_needs_no_ledger(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CONTEXT_ENGINE_AUDIT_MODE", "off")
    answer = searched("--top-k", "1", "--full")
    (bank / "saved.json").write_text(json.dumps(answer), "utf-8")
    assert "With stage2_top_k 2" in ok("audit", "why", "--file", "saved.json", dropped(answer)["chunk_id"])


def test_a_question_that_was_not_kept_ends_with_code_4_unless_it_is_given(bank: Path) -> None:
    keep(bank, "digest")
    answer = searched("--top-k", "1")
    args = ("audit", "why", answer["search_id"], dropped(answer)["chunk_id"])
    assert run(*args).exit_code == 4
    assert run(*args, "--query", "another question").exit_code == 4
    assert run(*args, "--query", QUERY).exit_code == 0
    keep(bank, "none")
    answer = searched("--top-k", "1")
    args = ("audit", "why", answer["search_id"], dropped(answer)["chunk_id"])
    assert run(*args, "--query", QUERY).exit_code == 4


def test_what_is_called_wrongly_is_said_in_one_line(bank: Path) -> None:
    answer = searched()
    search_id = answer["search_id"]
    (bank / "saved.json").write_text("{}", "utf-8")
    for args, problem in (
        ((search_id,), "Give the ID of a record, or --file, and a CHUNK"),
        ((search_id, "nothing-of-this"), "write SOURCE/CHUNK"),
        (("no-record", "a"), "no record 'no-record'"),
        (("--file", "saved.json", "a", "b"), "and a CHUNK"),
        (("--file", "saved.json", "a", "--query", "x"), "--query and --ledger are for"),
        (("--file", "saved.json", "a"), "saved.json: this is not a saved result"),
    ):
        result = run("audit", "why", *args)
        assert (result.exit_code, problem in result.stderr) == (2, True), (args, result.stderr)
    absent = ok("audit", "why", search_id, "nothing-of-this", "--source", "web")
    assert "was no candidate: the source was asked for 40 and gave 1, and this was not among them." in absent


def test_what_was_erased_is_named_and_nothing_is_computed_without_it() -> None:
    answer = searched("--top-k", "1")
    args = ("audit", "why", answer["search_id"], dropped(answer)["chunk_id"])
    ok("audit", "erase", "--document", "a", "--reason", "published by mistake", "--by", "records office", "--yes")
    result = run(*args)
    assert result.exit_code == 1
    assert "cannot be computed again: text was erased (entry 1 of " in result.stderr
    assert "'audit show' tells what is left of it" in result.stderr
    other = searched("--top-k", "1")
    ok("audit", "erase", "--query", other["search_id"], "--reason", "asked for", "--by", "records office", "--yes")
    assert run("audit", "why", other["search_id"], dropped(other)["chunk_id"]).exit_code == 4
