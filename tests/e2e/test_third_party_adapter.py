"""An adapter of another package, published by an entry point: ingest, search, doctor, eval and the plugin know it.

Beside the worked example, which offers everything, stands one that only searches.
"""

from __future__ import annotations

import json
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner, Result

from context_engine.apps.cli import main
from context_engine.apps.dify.catalogue import catalogue, refuse_unhealthy
from context_engine.apps.dify.credentials import Credentials
from context_engine.apps.dify.plugin_settings import load_plugin
from context_engine.apps.dify.tools import open_engine
from context_engine.core.models import NOBODY, Chunk, Score, ScoreKind, SourceAnswer, SourceQuery, SourceSpec
from context_engine.errors import ConfigError, SourceUnavailable
from context_engine.wiring.adapters import SOURCES

MANIFEST = """
version: 1
domain: NOTES
title: Limits
sources:
  - id: desk_notes
    type: bank_sop
    adapter: notes
    documents:
      - {include: "*.md"}
  - id: register
    type: system_of_record
    adapter: register
"""


class Register:
    """Only searches; refuses to where it is told to."""

    score_kinds = frozenset({ScoreKind.RELEVANCE})
    down = False

    def __init__(self, spec: SourceSpec) -> None:
        self.source_id = spec.id

    def search(self, query: SourceQuery) -> SourceAnswer:
        if self.down:
            raise SourceUnavailable("the register is closed until six", source_id=self.source_id)
        chunk = Chunk("The limit register.", "r1", scores=(Score(ScoreKind.RELEVANCE, 0.9),), document_id="REG")
        return SourceAnswer(chunks=(chunk,))

    def close(self) -> None:
        pass


@pytest.fixture(autouse=True)
def installed(monkeypatch: pytest.MonkeyPatch) -> None:
    """The entry points as two further packages publish them."""
    package = ModuleType("register_package")
    package.__dict__["open_register"] = lambda spec, _context: Register(spec)
    monkeypatch.setitem(sys.modules, "register_package", package)
    points = [
        EntryPoint("notes", "context_engine.testing.notes_adapter:open_notes", SOURCES),
        EntryPoint("register", "register_package:open_register", SOURCES),
    ]
    monkeypatch.setattr(
        "context_engine.wiring.adapters.entry_points", lambda *, group: points if group == SOURCES else []
    )


@pytest.fixture
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "manifests").mkdir()
    (tmp_path / "manifests/notes.yaml").write_text(MANIFEST)
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs/rates.md").write_text("# Rates desk\n\nThe approval limit of the rates desk is five million.\n")
    (tmp_path / "docs/credit.md").write_text("# Credit desk\n\nThe approval limit of the credit desk is two million.\n")
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> Result:
    return CliRunner().invoke(main, [*args, "--config-dir", ".", "--data-dir", "data"])


def ingest(*more: str) -> dict[str, Any]:
    result = run("ingest", "docs", "--domain", "NOTES", "--to", "notes", "--json", *more)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_documents_are_written_to_it_replaced_and_removed(bank: Path) -> None:
    dry = ingest("--dry-run")
    assert (dry["documents"], dry["chunks"]) == (2, 2)
    assert not (bank / "data" / "notes.sqlite3").exists(), "a dry run writes nothing"
    report = ingest()
    assert (report["to"], report["added"], report["unchanged"]) == ("notes", 2, 0)
    assert "notes" not in report, "the sink has nothing more to say"
    assert ingest()["unchanged"] == 2
    (bank / "docs/rates.md").unlink()
    (bank / "docs/credit.md").write_text("# Credit desk\n\nThe approval limit of the credit desk is three million.\n")
    report = ingest("--prune")
    assert (report["replaced"], report["removed"]) == (1, 1)
    found = json.loads(run("search", "approval limit", "--domain", "NOTES", "--json").stdout)
    texts = [chunk["content"] for chunk in found["chunks"] if chunk["source_id"] == "desk_notes"]
    assert len(texts) == 1 and "three million" in texts[0]


def test_ingest_says_where_it_wrote(bank: Path) -> None:
    result = run("ingest", "docs", "--domain", "NOTES", "--to", "notes")
    assert result.exit_code == 0
    assert result.stderr.rstrip().endswith(", notes")


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--to", "register"), "adapter 'register' only searches: its sources cannot be written to. Those of"),
        (("--to", "notes", "--repair"), "--repair is not for --to notes: give --to dify"),
        ((), "no source with 'adapter: local' in its manifest; --to notes writes to those it has"),
    ],
)
def test_what_it_cannot_do_is_said(bank: Path, args: tuple[str, ...], says: str) -> None:
    result = run("ingest", "docs", "--domain", "NOTES", *args)
    assert result.exit_code == 2
    assert says in result.stderr


def test_doctor_shows_what_it_found_and_what_only_searches(bank: Path) -> None:
    ingest()
    result = run("doctor", "--query", "approval limit")
    text = " ".join(result.stdout.split())
    assert result.exit_code == 0
    assert "✓ NOTES desk_notes – SQLite table 2 2" in text, "documents, and chunks that the sample found"
    assert "register: searches only; cannot be examined" in text
    assert "2 sources good" in text
    notes, register = json.loads(run("doctor", "--query", "approval limit", "--json").stdout)["sources"]
    assert (notes["kind"], notes["documents"], notes["records"], notes["ok"]) == ("SQLite table", 2, 2, True)
    assert register == {
        "domain": "NOTES", "source": "register", "adapter": "register", "problem": None, "records": 1, "datasets": [],
        "ok": True, "version": None,
    }  # fmt: skip


@pytest.mark.wording
def test_doctor_names_what_is_wrong(bank: Path) -> None:
    result = run("doctor")
    assert result.exit_code == 1
    assert "notes.sqlite3 does not exist: ingest notes first" in " ".join(result.stdout.split())
    ingest()
    (bank / "manifests/notes.yaml").write_text(MANIFEST.replace("id: desk_notes", "id: other_notes"))
    assert "! other_notes: it holds no notes: ingest some with --to notes" in " ".join(run("doctor").stdout.split())


def test_eval_checks_judgements_against_it(bank: Path) -> None:
    ingest()
    questions = bank / "questions.jsonl"
    (bank / "manifests/notes.yaml").write_text(MANIFEST[: MANIFEST.index("  - id: register")])

    def evaluated(gold: str) -> Result:
        line = {"id": "q1", "query": "approval limit of the rates desk", "domain": "NOTES", "answers": [gold]}
        questions.write_text(json.dumps(line) + "\n")
        return run("eval", "run", "--queries", str(questions))

    assert evaluated("rates").exit_code == 0, evaluated("rates").output
    wrong = evaluated("equities")
    assert wrong.exit_code == 2
    assert "name no chunk of the base: equities" in wrong.stderr


def test_the_plugin_shows_its_health(bank: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    manifest = {
        "version": 1,
        "domain": "NOTES",
        "sources": [
            {"id": "desk_notes", "type": "bank_sop", "adapter": "notes"},
            {"id": "register", "type": "system_of_record", "adapter": "register"},
        ],
    }
    fields = {"domains": json.dumps(manifest)}
    plugin = load_plugin(Credentials.read(fields), root=bank / "plugin", env={"HOME": str(bank)})
    opened = open_engine(plugin)
    try:

        def states() -> dict[str, Any]:
            (domain,) = catalogue(opened, NOBODY).json["domains"]
            return {one["source_id"]: one["health"] for one in domain["sources"]}

        found = states()
        assert found["register"] == {"state": "ok", "problem": None}
        assert found["desk_notes"]["state"] == "failed" and "ingest notes first" in found["desk_notes"]["problem"]
        with pytest.raises(ConfigError, match=r"1 of 2 sources cannot be searched\. NOTES/desk_notes: "):
            refuse_unhealthy(opened)
        monkeypatch.setattr(Register, "down", True)
        assert states()["register"] == {"state": "failed", "problem": "the register is closed until six"}
    finally:
        opened.engine.close()
