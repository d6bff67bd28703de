"""Backup and restore by real processes: under load, killed at any moment, after erasures, and without secrets."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.formats.keys import SigningKey
from tests.e2e.serving import served

pytestmark = pytest.mark.slow

ORIGIN = "audit.bank.example/retrieval"
KEY = SigningKey(ORIGIN, bytes(range(32)))
SECRET = "fictitious-key-of-dify-4711"
MANIFEST = """
version: 1
domain: BANK
sources:
  - id: procedures
    type: bank_sop
    documents: [{include: "**/*.md", doc_type: sop_document}]
"""


@pytest.fixture(scope="module")
def bank(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A configuration with twenty documents, a key in plain text, and a ledger with a question."""
    place = tmp_path_factory.mktemp("bank")
    for folder in ("config", "manifests", "documents"):
        (place / folder).mkdir()
    (place / "manifests/bank.yaml").write_text(MANIFEST)
    (place / "config/rag-pipeline.json").write_text('{"stage2_top_k": 5}')
    (place / "config/connections.yaml").write_text(
        f"dify: {{base_url: 'https://dify.bank.example/v1', api_key: {SECRET}}}"
    )
    write_documents(place, "settlement", 20)
    run(place, "ingest", "documents")
    run(place, "search", "settlement of procedure 3")
    return place


@pytest.fixture
def home(bank: Path, tmp_path: Path) -> Path:
    """A copy of the bank."""
    return Path(shutil.copytree(bank, tmp_path, dirs_exist_ok=True))


def write_documents(home: Path, word: str, number: int) -> None:
    for n in range(number):
        parts = "\n\n".join(f"## {m} Part\n\nSection {m} of procedure {n}: {word}." for m in range(1, 4))
        (home / f"documents/{n:03}.md").write_text(f"---\ndocument_id: P{n:03}\n---\n# Procedure {n}\n\n{parts}\n")


def environment(home: Path) -> dict[str, str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    mine = {"CONTEXT_ENGINE_AUDIT_MODE": "required", "CONTEXT_ENGINE_AUDIT_KEY": KEY.text}
    return {**known, **mine, "CONTEXT_ENGINE_DATA_DIR": str(home / "data"), "XDG_CONFIG_HOME": str(home / "none")}


def started(home: Path, *command: str, **more: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "context_engine", *command],
        cwd=home,
        env={**environment(home), **more},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def run(home: Path, *command: str, code: int = 0, **more: str) -> tuple[str, str]:
    process = started(home, *command, **more)
    out, err = process.communicate(timeout=120)
    assert process.returncode == code, (command, out, err)
    return out, err


def as_json(home: Path, *command: str, **more: str) -> Any:
    return json.loads(run(home, *command, "--json", **more)[0])


def shown(home: Path, question: str, *options: str) -> list[tuple[str, float]]:
    chunks = as_json(home, "search", question, *options)["chunks"]
    return [(chunk["chunk_id"], chunk["_rag_score"]) for chunk in chunks]


def test_a_restored_copy_answers_as_the_original_and_its_ledger_is_sound(home: Path) -> None:
    before = shown(home, "settlement of procedure 7")
    made = as_json(home, "backup", "first.zip")
    assert made["base"]["documents"] == 20 and made["ledger"]["size"] + made["ledger"]["pending"] == 3
    restored = as_json(home, "restore", "first.zip", "--data-dir", "copy")
    assert restored["ledger_verdict"] == "self-consistent" and set(restored["placed"]) == {"base", "ledger"}
    checked = as_json(home, "audit", "verify", "--data-dir", "copy", "--key", KEY.verifier.text)
    assert (checked["verdict"], checked["size"]) == ("sound", made["ledger"]["size"])
    assert as_json(home, "kb", "verify", "--data-dir", "copy")["ok"]
    assert shown(home, "settlement of procedure 7", "--data-dir", "copy") == before
    modes = {name: (home / "copy" / name).stat().st_mode & 0o077 for name in ("base/base.sqlite3", "audit/ledger.db")}
    assert modes == {"base/base.sqlite3": 0o044, "audit/ledger.db": 0}, "others may search, and not read the record"


def test_secrets_are_not_in_it_and_what_is_left_out_is_named(home: Path) -> None:
    made = as_json(home, "backup", ".")
    archive = Path(home, made["archive"])
    told = "".join(run(home, "restore", archive.name, "--only", "base", "--data-dir", "part"))
    assert "restored: 20 documents; made at" in told and "Configuration files stay as they are" in told
    left_out = {row["name"]: row["reason"] for row in made["left_out"]}
    assert set(left_out) == {"keys", "config/connections.yaml"} and "plain text" in left_out["config/connections.yaml"]
    run(home, "restore", archive.name, "--config-to", "configuration")
    shutil.unpack_archive(archive, home / "unpacked")
    for file in [*home.glob("unpacked/**/*"), *home.glob("configuration/**/*")]:
        content = file.read_bytes() if file.is_file() else b""
        assert SECRET.encode() not in content and KEY.text.encode() not in content
    assert (home / "configuration/config/rag-pipeline.json").read_text() == '{"stage2_top_k": 5}'
    assert (home / "configuration/manifests/bank.yaml").read_text() == MANIFEST
    assert "not empty" in run(home, "restore", archive.name, "--config-to", "configuration", code=2)[1]


def test_a_ledger_in_postgresql_is_left_to_pg_dump(home: Path) -> None:
    dsn = "postgresql://audit:fictitious-password@db.bank.example/ledger"
    made = as_json(home, "backup", "base.zip", CONTEXT_ENGINE_AUDIT_LEDGER=dsn)
    (ledger,) = (row for row in made["left_out"] if row["name"].startswith("ledger"))
    assert "pg_dump" in ledger["reason"] and "fictitious-password" not in json.dumps(made)
    assert made["ledger"] is None
    whole = as_json(home, "backup", "whole.zip")
    assert whole["ledger"]
    refused = run(home, "restore", "whole.zip", "--replace", code=2, CONTEXT_ENGINE_AUDIT_LEDGER=dsn)[1]
    assert "--only base" in refused and "fictitious-password" not in refused


def test_what_was_erased_after_the_backup_does_not_come_back(home: Path) -> None:
    (record,) = [row["record_id"] for row in as_json(home, "audit", "list", "--kind", "search")["records"]]
    judged = "judgements/passages.jsonl"
    (home / "data/judgements").mkdir()
    (home / "data" / judged).write_text(json.dumps({"search_id": record, "query": "settlement"}) + "\n")
    run(home, "backup", "before.zip")
    assert as_json(home, "audit", "erase", "--query", record, "--reason", "requested", "--yes")["judgements"] == 1
    assert not (home / "data" / judged).read_text().strip()
    run(home, "audit", "export", "--format", "jsonl", "--out", "erasures.jsonl")
    again = as_json(home, "restore", "before.zip", "--replace")
    assert again["erased_again"] > 0 and len(again["set_aside"]) == 2
    assert "was erased" in run(home, "audit", "replay", record, code=4)[1]
    assert as_json(home, "audit", "verify", "--key", KEY.verifier.text)["sound"]
    by_export = as_json(home, "restore", "before.zip", "--data-dir", "copy", "--erasures", "erasures.jsonl")
    assert by_export["erased_again"] == again["erased_again"] + 1, "the judgement, which stayed where it was, too"
    assert not (home / "copy" / judged).read_text().strip()
    assert "was erased" in run(home, "audit", "replay", record, "--data-dir", "copy", code=4)[1]
    without = as_json(home, "restore", "before.zip", "--data-dir", "without")
    assert without["erased_again"] == 0, "nobody knows of the erasure"
    assert "settlement" in (home / "without" / judged).read_text()


def test_nothing_is_overwritten_and_nothing_in_use_is_moved(home: Path) -> None:
    run(home, "backup", "a.zip")
    assert "exists already" in run(home, "backup", "a.zip", code=2)[1]
    assert "neither an existing folder" in run(home, "backup", "backups", code=2)[1]
    assert "name their folder" in run(home, "backup", "b.zip", "--data-dir", "nothing", code=2)[1]
    assert "--replace" in run(home, "restore", "a.zip", code=2)[1]
    assert "audit/ledger.db" in run(home, "restore", "a.zip", "--dry-run")[1]
    with served(home, **environment(home)) as service:
        service.ask("POST", "/api/v1/rag/retrieve", {"query": "settlement", "domain": "BANK"})
        assert "stop the service" in run(home, "restore", "a.zip", "--replace", code=1)[1]
        run(home, "backup", "b.zip")
    run(home, "restore", "b.zip", "--replace")


def test_a_backup_taken_while_documents_are_ingested_and_searches_recorded_is_whole(home: Path) -> None:
    taken: list[Path] = []
    with served(home, **environment(home)) as service:
        for turn, word in enumerate(("clearing", "netting", "custody")):
            write_documents(home, word, 40)
            ingestion = started(home, "ingest", "documents")
            backup = started(home, "backup", f"{turn}.zip")
            while backup.poll() is None:
                service.ask("POST", "/api/v1/rag/retrieve", {"query": f"{word} {turn}", "domain": "BANK"})
            assert backup.returncode == 0, backup.communicate()
            assert ingestion.wait() == 0, ingestion.communicate()
            taken.append(home / f"{turn}.zip")
    for number, archive in enumerate(taken):
        restored = as_json(home, "restore", archive.name, "--data-dir", f"copy-{number}")
        assert restored["base"]["documents"] in (20, 40)
        assert as_json(home, "kb", "verify", "--data-dir", f"copy-{number}")["ok"]


def test_a_killed_backup_leaves_nothing_that_looks_whole_and_the_next_one_clears_up(home: Path) -> None:
    begun = time.monotonic()
    run(home, "backup", "whole.zip")
    whole_s = time.monotonic() - begun
    (home / "kept").mkdir()
    for turn in range(5):
        process = started(home, "backup", f"kept/{turn}.zip")
        time.sleep(whole_s * (0.3 + 0.15 * turn))
        process.send_signal(signal.SIGKILL)
        process.wait()
    for archive in (home / "kept").glob("*.zip"):
        run(home, "restore", str(archive), "--dry-run", "--data-dir", f"checked-{archive.stem}")
    run(home, "backup", "kept/last.zip")
    assert not [path for path in (home / "kept").iterdir() if path.suffix != ".zip"]


def test_a_killed_restore_leaves_nothing_that_looks_whole_and_the_next_one_completes_it(home: Path) -> None:
    run(home, "backup", "whole.zip")
    begun = time.monotonic()
    run(home, "restore", "whole.zip", "--data-dir", "timed")
    whole_s = time.monotonic() - begun
    for turn in range(5):
        place = home / f"copy-{turn}"
        process = started(home, "restore", "whole.zip", "--data-dir", str(place))
        time.sleep(whole_s * (0.3 + 0.15 * turn))
        process.send_signal(signal.SIGKILL)
        process.wait()
        if (place / "base").exists():  # moved there last
            assert as_json(home, "kb", "verify", "--data-dir", str(place))["ok"]
            assert as_json(home, "audit", "verify", "--data-dir", str(place))["verdict"] == "self-consistent"
        else:
            run(home, "restore", "whole.zip", "--data-dir", str(place), "--replace")
            assert as_json(home, "kb", "verify", "--data-dir", str(place))["ok"]
            assert not list(place.glob(".context-engine-*"))
