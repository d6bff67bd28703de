"""The commands of jobs as real processes: from the start to the erasure."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

MANIFEST = """
version: 1
domain: LOANS
sources:
  - id: policies
    type: bank_sop
    documents: [{include: "**/*.md", doc_type: sop_document}]
"""
LIMIT = "What is the facility limit?"


def ran(place: Path, *args: str, code: int = 0) -> str:
    known = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_ENGINE", "COLUMNS"))}
    env = {
        **known,
        "HOME": str(place),
        "CONTEXT_ENGINE_DATA_DIR": str(place / "data"),
        "CONTEXT_ENGINE_AUDIT_MODE": "required",
    }
    command = [sys.executable, "-m", "context_engine", *args]
    done = subprocess.run(command, cwd=place, env=env, capture_output=True, text=True, timeout=120)
    assert done.returncode == code, (args, done.stdout, done.stderr)
    return done.stdout


@pytest.mark.slow
def test_a_job_from_its_start_to_its_erasure(tmp_path: Path) -> None:
    for name in ("manifests", "policies", "agreements"):
        (tmp_path / name).mkdir()
    (tmp_path / "manifests/loans.yaml").write_text(MANIFEST)
    (tmp_path / "policies/approval.md").write_text("# Approval\n\nThe credit committee approves a facility.\n")
    for name, millions in (("a", 5), ("b", 7)):
        text = f"# Agreement {name}\n\nThe facility limit is USD {millions} million.\n"
        (tmp_path / f"agreements/{name}.md").write_text(text)
    ran(tmp_path, "ingest", "policies", "--domain", "LOANS")

    job = ran(
        tmp_path, "job", "start", "Facility review", "--budget", "2.50", "--constraint", "Amounts in USD."
    ).strip()
    ran(tmp_path, "job", "add", job, "--documents", "agreements", "--risk", "One is unsigned.")
    memory = json.loads(ran(tmp_path, "job", "run", job, "--question", LIMIT, "--json"))
    assert [finding["document_id"] for finding in memory["findings"]] == ["a", "b"]
    assert memory["constraints"]["budget_limit"] == 2.5

    assert "committee approves" in ran(tmp_path, "ask", "Who approves a facility?", "--job", job)
    assert "- Amounts in USD." in ran(tmp_path, "job", "show", job, "--compressed")
    assert "3 findings" in ran(tmp_path, "job", "show", job)
    assert job in ran(tmp_path, "job", "list")
    ran(tmp_path, "job", "export", job, "memory.json")
    assert json.loads((tmp_path / "memory.json").read_text())["job_id"] == job
    assert "million" not in ran(tmp_path, "ask", LIMIT, "--domain", "LOANS", code=4)
    assert "jobs" in ran(tmp_path, "backup", "backup.zip", "--json")

    ran(tmp_path, "job", "close", job)
    ran(tmp_path, "job", "add", job, "--risk", "Late.", code=2)
    ran(tmp_path, "job", "delete", job, "--yes")
    erased = json.loads(ran(tmp_path, "audit", "erase", "--job", job, "--reason", "done", "--yes", "--json"))
    assert erased["texts"] == 2
    ran(tmp_path, "job", "show", job, code=2)
    files = (path for path in (tmp_path / "data").rglob("*") if path.is_file())
    assert [path for path in files if b"USD 5 million" in path.read_bytes()] == []
