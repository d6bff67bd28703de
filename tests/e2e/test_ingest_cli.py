"""`ingest --to dify` as its user sees it, over a FakeDify of the same process; watching as a process."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.apps.cli import main
from context_engine.apps.cli.ingest import noting_once, noting_sleep
from context_engine.testing import FakeDataset, FakeDify

pytestmark = pytest.mark.slow

KEY = "dataset-commandlinesecret2"
MANIFEST = """
version: 1
domain: BANK
sources:
  - id: procedures
    title: Procedures of the bank
    type: bank_sop
    adapter: dify
    connection: dify
    settings: {indexing_technique: economy}
    documents:
      - {include: "sops/*", doc_type: sop_document}
  - id: web
    type: general_web
    documents: [{include: "**/*", otherwise: true}]
"""


@pytest.fixture
def dify() -> Iterator[FakeDify]:
    with FakeDify([], api_key=KEY, indexing_s=0.01) as server:
        yield server


@pytest.fixture
def bank(dify: FakeDify, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    files = {
        "config/connections.yaml": f"dify:\n  base_url: {dify.base_url}\n  api_key: ${{DIFY_API_KEY}}\n",
        "manifests/bank.yaml": MANIFEST,
        "docs/sops/a.md": "---\ndocument_id: SOP-A\nversion: '2'\n---\n# Approval\n\n## 1 Scope\n\nAny new product.\n",
        "docs/sops/b.md": "# Closing\n\n## 1 Scope\n\nEvery closed product.\n",
        "docs/note.md": "A note of nobody.\n",
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for name in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "COLUMNS", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(name, raising=False)
    for name, value in {"HOME": tmp_path, "CONTEXT_ENGINE_DATA_DIR": tmp_path / "data", "DIFY_API_KEY": KEY}.items():
        monkeypatch.setenv(name, str(value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def run(*args: str) -> Result:
    result = CliRunner().invoke(main, ["ingest", "docs", "--domain", "BANK", *args])
    assert KEY not in result.output
    return result


def test_a_dry_run_says_what_would_be_and_shows_chunks(bank: Path, dify: FakeDify) -> None:
    result = run("--to", "dify", "--dry-run")
    assert result.exit_code == 0
    assert "dataset 'procedures' would be created" in result.stdout
    assert "SOP-A@2#1" in result.stdout
    assert "Any new product." in result.stdout
    assert [one.method for one in dify.requests] == ["GET"]


def test_where_no_file_gives_a_document_the_exit_code_says_so(bank: Path) -> None:
    for name in ("a.md", "b.md"):
        (bank / "docs/sops" / name).unlink()
    result = run("--to", "dify", "--dry-run")
    assert result.exit_code == 3 and "note.md skipped: no rule includes it" in result.stdout
    (bank / "docs/note.md").unlink()  # a folder that nobody has filled yet
    assert run("--to", "dify", "--dry-run").exit_code == 0


def test_the_report_says_what_dify_took_and_how_to_search_it(bank: Path, dify: FakeDify) -> None:
    result = run("--to", "dify")
    assert result.exit_code == 0
    identity = dify.dataset_id("procedures")
    assert f"dataset_ids: [{identity}]" in result.stdout
    assert "Dify took 2 documents with 2 chunks" in result.stderr
    assert "1 skipped" not in result.stdout
    advice = "add one to a source's documents, or name the source (--source) or its adapter (--to)"
    assert f"note.md skipped: no rule includes it: {advice}" in result.stdout
    (bank / "manifests/bank.yaml").write_text(
        MANIFEST.replace("    documents:\n", f"    dataset_ids: [{identity}]\n    documents:\n")
    )
    found = CliRunner().invoke(main, ["search", "new product", "--domain", "BANK", "--json"])
    chunk = json.loads(found.stdout)["chunks"][0]
    assert (chunk["document_id"], chunk["document_version"], chunk["title"]) == ("SOP-A", "2", "Approval")
    assert chunk["_provenance"]["source_type"] == "bank_sop"


def test_a_refused_document_is_named_the_run_goes_on_and_the_exit_code_is_3(bank: Path, dify: FakeDify) -> None:
    dify.inject("bad_request", endpoint="create_by_text", calls={1})
    result = run("--to", "dify")
    assert result.exit_code == 3
    assert "refused: document SOP-A version 2 of source procedures: Dify refused the request (400)" in result.stdout
    assert "Dify took 1 document " in result.stderr
    report = json.loads(run("--to", "dify", "--json").stdout)
    assert (report["added"], report["unchanged"], report["refused"]) == (1, 1, [])


def test_an_outage_ends_the_run_and_says_how_to_go_on(bank: Path, dify: FakeDify) -> None:
    dify.stop()
    result = run("--to", "dify")
    assert result.exit_code == 1
    assert "What was written stays" in result.stderr
    assert "Dify could not be reached" in result.stderr


def test_a_file_that_changed_unseen_is_read_when_forced(bank: Path) -> None:
    old = (1_700_000_000, 1_700_000_000)
    file = bank / "docs/sops/b.md"
    os.utime(file, old)
    run("--to", "dify")
    file.write_text(file.read_text().replace("product", "produkt"))
    os.utime(file, old)
    assert json.loads(run("--to", "dify", "--json").stdout)["replaced"] == 0
    assert json.loads(run("--to", "dify", "--json", "--force").stdout)["replaced"] == 1


def test_that_a_large_table_is_as_many_documents_is_said_before_anything_is_written(bank: Path) -> None:
    (bank / "docs/sops/desks.jsonl").write_text("".join(f'{{"id": {n}, "name": "Desk {n}"}}\n' for n in range(500)))
    said = run("--to", "dify", "--dry-run").stdout
    assert "documents in Dify too, one for each record" in said
    assert "chunks to write" in said


def test_a_long_wait_for_dify_is_said_seldom(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("time.sleep", lambda _seconds: None)
    wait = noting_sleep("dify")
    for _ in range(100):
        wait(1.0)
    assert re.findall(r"(\d+) s so far", capsys.readouterr().err) == ["10", "30", "90"]


def test_an_outage_is_said_once(capsys: pytest.CaptureFixture[str]) -> None:
    tell = noting_once()
    for problem in ("Dify failed inside (500)", "Dify failed inside (500)", "cannot be reached"):
        tell(problem)
    said = capsys.readouterr().err.splitlines()
    assert said == ["Dify failed inside (500); trying again …", "cannot be reached; trying again …"]


def test_prune_takes_out_what_the_folder_lost(bank: Path, dify: FakeDify) -> None:
    run("--to", "dify")
    (bank / "docs/sops/b.md").unlink()
    report = json.loads(run("--to", "dify", "--prune", "--json").stdout)
    assert (report["removed"], report["unchanged"], report["dify"]["deleted"]) == (1, 1, 1)
    assert len(dify.documents("procedures")) == 1


def test_a_file_that_cannot_be_read_keeps_its_own_document_in_dify_alone(bank: Path, dify: FakeDify) -> None:
    """Another machine may run it next time: which file a document came from stands in Dify."""
    run("--to", "dify")
    (bank / "docs/sops/a.md").unlink()
    (bank / "docs/sops/b.md").write_bytes(b"a\nb\x00")
    (bank / "docs/sops/c.md").write_text("# Review\n\n## 1 Scope\n\nEvery product.\n")
    for memory in bank.glob("data/files-*.json"):
        memory.unlink()
    result = run("--to", "dify", "--prune", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["removed"], report["added"]) == (3, 1, 1)
    assert [(one["reason"], one["documents"]) for one in report["kept"]] == [
        ("not_pruned", [{"document_id": "b", "version": ""}])
    ]
    assert report["commands"] == ["context-engine ingest docs --domain BANK --to dify --prune"]
    assert sorted(one.name.split(" ")[0] for one in dify.documents("procedures")) == ["Closing", "Review"]


def test_a_folder_that_is_not_mounted_empties_no_dataset(bank: Path, dify: FakeDify) -> None:
    run("--to", "dify")
    for file in (bank / "docs").rglob("*.md"):
        file.unlink()
    result = run("--to", "dify", "--prune", "--json")
    report = json.loads(result.stdout)
    assert (result.exit_code, report["removed"], len(dify.documents("procedures"))) == (3, 0, 2)
    assert report["commands"] == ["context-engine ingest docs --domain BANK --to dify --prune --allow-empty"]
    result = run("--to", "dify", "--prune", "--allow-empty", "--json")
    assert (result.exit_code, json.loads(result.stdout)["removed"]) == (0, 2)
    assert dify.documents("procedures") == []


@pytest.mark.wording
def test_each_target_takes_its_own_sources(bank: Path) -> None:
    report = json.loads(run("--json").stdout)
    assert (report["to"], report["documents"]) == ("local", 3)
    assert any(
        "3 documents: no other rule includes them: taken as 'default', tier 5" in one for one in report["warnings"]
    )
    assert "dify" not in report


@pytest.mark.parametrize(
    ("args", "says"),
    [
        (("--to", "dify", "--source", "web"), "source 'web' is not one that --to dify writes to"),
        (("--to", "weaviate"), "unknown adapter 'weaviate'. Installed: dify, local"),
        (("--jobs", "-1"), "-1 is not in the range"),
    ],
)
def test_what_cannot_be_asked_is_said(bank: Path, args: tuple[str, ...], says: str) -> None:
    result = run(*args)
    assert result.exit_code == 2
    assert says in result.stderr


def test_a_domain_without_a_source_of_that_kind_names_the_other(bank: Path) -> None:
    (bank / "manifests/bank.yaml").write_text(MANIFEST[: MANIFEST.index("  - id: web")])
    result = run()
    assert result.exit_code == 2
    assert "no source with 'adapter: local' in its manifest; --to dify writes to those it has" in result.stderr


def test_two_runs_at_once_are_not_let(bank: Path) -> None:
    (bank / "data" / "dify").mkdir(parents=True)
    with WriterLock(bank / "data" / "dify"):
        result = run("--to", "dify")
    assert result.exit_code == 2
    assert "another process is writing to Dify" in result.stderr


def test_a_dataset_that_is_parent_child_is_refused_before_anything_is_written(bank: Path, dify: FakeDify) -> None:
    from context_engine.testing import FakeDocument

    dify.put(FakeDataset("procedures", documents=[FakeDocument("x")], doc_form="hierarchical_model"))
    result = run("--to", "dify")
    assert result.exit_code == 2
    assert "cuts documents itself (hierarchical_model)" in result.stderr
    assert {one.method for one in dify.requests} == {"GET"}


def heeding_ctrl_c() -> None:
    """A shell that runs the tests in the background has them ignore Ctrl-C, and processes hand that on."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def test_watching_takes_in_what_changes_until_it_is_stopped(bank: Path, dify: FakeDify) -> None:
    """It may look between two changes, so the reports are added up."""
    command = [sys.executable, "-m", "context_engine", "ingest", "docs", "--domain", "BANK", "--to", "dify"]
    unlike = ("COLUMNS", "PYTHONUNBUFFERED")  # where it is set, what is not flushed comes through a pipe all the same
    environment = {name: value for name, value in os.environ.items() if not name.startswith(unlike)}
    with subprocess.Popen(
        [*command, "--watch", "--prune", "--json"], cwd=bank, env=environment, stdout=subprocess.PIPE, text=True,
        preexec_fn=heeding_ctrl_c,
    ) as watching:  # fmt: skip
        assert watching.stdout is not None
        too_late = threading.Timer(120, watching.kill)
        too_late.start()
        try:
            assert json.loads(watching.stdout.readline())["added"] == 2
            (bank / "third.md").write_text("# Third\n\nText.\n")
            (bank / "third.md").rename(bank / "docs/sops/c.md")
            (bank / "docs/sops/b.md").unlink()
            added = removed = 0
            while added < 1 or removed < 1:
                report = json.loads(watching.stdout.readline())
                added, removed = added + report["added"], removed + report["removed"]
            assert (added, removed) == (1, 1)
            time.sleep(0.1)
            watching.send_signal(signal.SIGINT)
            assert watching.wait(60) == 0
        finally:
            too_late.cancel()
            watching.kill()
    assert len(dify.documents("procedures")) == 2


def test_a_source_in_dify_is_emptied(bank: Path) -> None:
    assert run("--to", "dify", "--write-ids", "manifests/bank.yaml").exit_code == 0
    for arguments, documents in ((["--dry-run"], 2), (["--yes"], 2), (["--dry-run"], 0)):
        removed = CliRunner().invoke(main, ["kb", "remove", "procedures", "--json", *arguments])
        assert removed.exit_code == 0 and KEY not in removed.output
        assert json.loads(removed.stdout)["sources"] == {"procedures": documents}
