"""A store outside of the tree is calibrated, taught and proved by the commands, as the embedded base is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("numpy", reason="the extra 'vectors'")
pytest.importorskip("ir_measures", reason="the extra 'eval'")

from context_engine.apps.cli import main
from tests.toy_store import ToyStore, install

pytestmark = pytest.mark.slow
MANIFEST = """
version: 1
domain: OPS
sources:
  - {id: policies, type: bank_sop, adapter: toy, documents: [{include: "rules/*.md"}]}
  - {id: papers, type: system_of_record, adapter: toy, classification: confidential,
     access: {roles: [board]}, documents: [{include: "board/*.md"}]}
"""
SUBJECTS = [
    "margin",
    "custody",
    "escrow",
    "dividend",
    "collateral",
    "factoring",
    "guarantee",
    "hedging",
    "leasing",
    "netting",
]
TASKS = ("valued", "booked", "reviewed", "reported", "settled", "approved")
PAIRS = [(subject, task) for subject in SUBJECTS for task in TASKS]


def run(*args: str) -> Result:
    return CliRunner().invoke(main, args)


def ok(*args: str) -> Any:
    result = run(*args)
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


@pytest.fixture(autouse=True)
def bank(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A configuration whose sources are in the toy store; customers call each subject by another name."""
    install(monkeypatch)
    files = {"manifests/ops.yaml": MANIFEST, "board/falcon.md": "The board alone knows project Falcon.\n"}
    files["config/rag-pipeline.json"] = json.dumps({"embedder": "words"})
    for number, (subject, task) in enumerate(PAIRS):
        text = f"The {subject} account is {task} by desk {subject[:3]}{task[:3]} before noon.\n"
        files[f"rules/{number}.md"] = f"---\ndocument_id: R-{number}\n---\n{text}"
    asked = [f"q{n}\tWho handles customers{SUBJECTS.index(s)} at {s[:3]}{t[:3]}?\n" for n, (s, t) in enumerate(PAIRS)]
    files |= {"q.tsv": "".join(asked), "r.tsv": "".join(f"q{n}\tR-{n}\t1\n" for n in range(len(PAIRS)))}
    for path, text in files.items():
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text, "utf-8")
    for key in ("CONTEXT_ENGINE_CONFIG_DIR", "CONTEXT_ENGINE_STAGE", "XDG_CONFIG_HOME"):
        monkeypatch.delenv(key, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CONTEXT_ENGINE_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "data"


def test_ingestion_calibrates_the_store_and_config_show_reports_the_threshold() -> None:
    (calibration,) = ok("ingest", ".", "--domain", "OPS", "--to", "toy", "--json")["calibrations"]
    assert calibration["problem"] is None and {found["model_id"] for found in calibration["found"]} == {"", "fake-64"}
    shown = " ".join(run("doctor").output.split())
    assert "scope threshold of OPS:" in shown and ", calibrated" in shown
    assert ok("search", "Who reviews the custody account?", "-d", "OPS", "--json")["decision"] == "answered"


def test_an_adapter_is_learnt_for_the_store_and_put_in_force(bank: Path) -> None:
    ok("ingest", ".", "--domain", "OPS", "--to", "toy", "--json")
    tuned = run("eval", "tune", "--adapter", "--queries", "q.tsv", "--qrels", "r.tsv", "-d", "OPS", "--folds", "3")
    assert tuned.exit_code == 0, tuned.output
    assert "better beyond noise" in tuned.output
    assert [adapter.in_force for adapter in ToyStore(bank / "toy.pickle").adapters("OPS")] == [True]


def test_its_answers_are_proved() -> None:
    ok("ingest", ".", "--domain", "OPS", "--to", "toy", "--json")
    certificate = ok("access", "prove", "--adapter", "toy", "--changes", "10", "--questions", "5", "--json")
    assert certificate["holds"] and sum(certificate["changes"].values()) == 10


def test_its_documents_are_copied_to_the_embedded_base_and_back(bank: Path) -> None:
    run("ingest", ".", "--domain", "OPS", "--to", "toy")
    order = ("kb", "copy", "--from", "toy", "--to", "local")
    (plan,) = ok(*order, "--dry-run", "--json")["domains"]
    assert plan["same"] is None and [source["written"] for source in plan["sources"]] == [60, 1]
    assert not (bank / "base/base.sqlite3").exists()
    published = ok(*order, "--json")
    (copied,) = published["domains"]
    assert (published["schema_version"], published["from"], published["to"]) == (1, "toy", "local")
    assert copied["same"] and copied["calibrations"] and [source["written"] for source in copied["sources"]] == [60, 1]
    assert copied["manifest"] == {"policies": {"adapter": "local"}, "papers": {"adapter": "local"}}
    assert [source["written"] for source in ok(*order, "--json")["domains"][0]["sources"]] == [0, 0]

    before = ToyStore(bank / "toy.pickle").documents
    (bank / "toy.pickle").unlink()
    back = ("kb", "copy", "--from", "local", "--to", "toy", "--domain", "OPS")
    assert "papers: 1" not in run(*back, "--source", "policies").output
    result = run(*back, "--delete")
    assert result.exit_code == 0 and "61 documents are the same in both stores" in result.output
    assert ToyStore(bank / "toy.pickle").documents == before


@pytest.mark.parametrize(
    ("args", "reason"),
    [
        (("--from", "toy", "--to", "postgres"), "needs a connection"),
        (("--from", "toy", "--to", "toy"), "the same store"),
        (("--from", "toy", "--to", "local", "--set", "colour"), "--set takes KEY=VALUE"),
        (("--from", "toy", "--to", "local", "--source", "polices"), "policies"),
        (("--from", "toy", "--to", "notes"), "does not offer copying of its documents"),
        (("--from", "dify", "--to", "local", "--domain", "OPS"), "has no source with 'adapter: dify'"),
    ],
)
def test_a_copy_that_cannot_be_made_says_why(args: tuple[str, ...], reason: str) -> None:
    result = run("kb", "copy", *args)
    assert result.exit_code == 2 and reason in " ".join(result.output.split())
