"""A job over many documents whose process is killed again and again remembers what an undisturbed one does."""

from __future__ import annotations

import json
import os
import random
import shutil
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from context_engine.jobs.contract import job_out
from context_engine.jobs.folder_store import EVENTS_FILE, FolderJobs
from context_engine.jobs.owned import OwnedJobs
from context_engine.service.deployment import open_deployment
from context_engine.wiring.setup import load_setup
from tests.e2e.job_process import CLERK, MODEL

DOCUMENTS = 60
KILLS = 4
QUESTION = "What is the facility limit?"
MANIFEST = {"version": 1, "domain": "LOANS", "sources": [{"id": "policies", "type": "bank_sop"}]}
PRICE = {
    "model": MODEL,
    "valid_from": "2020-01-01",
    "currency": "USD",
    "input_per_million": 3,
    "output_per_million": 15,
}
TIMES = ("started_at", "completed_at", "time_elapsed_hours", "search_id", "answer_id", "closed_at", "fetched_at")


@pytest.fixture
def bank(tmp_path: Path) -> Path:
    """A domain without documents, and agreements, of which every seventh states no limit."""
    for name in ("config", "manifests", "agreements"):
        (tmp_path / name).mkdir()
    (tmp_path / "manifests/loans.yaml").write_text(json.dumps(MANIFEST))
    (tmp_path / "config/rag-pipeline.json").write_text(json.dumps({"prices": [PRICE]}))
    for number in range(DOCUMENTS):
        text = "Fees are paid in arrears." if number % 7 == 0 else f"The facility limit is USD {number} million."
        (tmp_path / f"agreements/{number:03}.md").write_text(f"# Agreement {number}\n\n{text}\n")
    return tmp_path


def started(bank: Path, data_dir: Path) -> str:
    deployment = open_deployment(load_setup(config_dir=bank, env={"HOME": str(bank)}, cwd=bank), data_dir=data_dir)
    jobs = OwnedJobs(deployment, CLERK)
    job_id = jobs.start("Review of the agreements").job_id
    jobs.add(job_id, "constraint", "Amounts in USD.")
    jobs.add_documents(job_id, bank / "agreements")
    deployment.close()
    return job_id


def process(bank: Path, data_dir: Path, job_id: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.e2e.job_process", str(bank), str(data_dir), job_id, QUESTION]
    return subprocess.Popen(command, env=dict(os.environ))


def read(data_dir: Path, job_id: str) -> int:
    """Return how many documents are read."""
    with closing(sqlite3.connect(FolderJobs(data_dir).folder(job_id) / EVENTS_FILE)) as file:
        return int(file.execute("SELECT count(*) FROM event WHERE id LIKE 'read-%'").fetchone()[0])


def kill_at(running: subprocess.Popen[bytes], data_dir: Path, job_id: str, documents: int, later_s: float) -> None:
    until = time.monotonic() + 120
    while read(data_dir, job_id) < documents and running.poll() is None:
        assert time.monotonic() < until
        time.sleep(0.005)
    time.sleep(later_s)
    running.kill()
    running.wait()


def timeless(value: Any) -> Any:
    """Return a memory without its times and the ids of its records."""
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if name not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="signals")
def test_a_job_that_is_killed_again_and_again_remembers_the_same(bank: Path) -> None:
    job_id = started(bank, bank / "killed")
    shutil.copytree(bank / "killed", bank / "whole")
    assert process(bank, bank / "whole", job_id).wait() == 0

    chance = random.Random(7)
    for documents in sorted(chance.sample(range(DOCUMENTS), KILLS)):
        running = process(bank, bank / "killed", job_id)
        kill_at(running, bank / "killed", job_id, documents, chance.uniform(0, 0.05))
    assert process(bank, bank / "killed", job_id).wait() == 0

    whole, killed = (FolderJobs(bank / name).memory(job_id) for name in ("whole", "killed"))
    assert timeless(job_out(killed).model_dump(mode="json")) == timeless(job_out(whole).model_dump(mode="json"))
    assert killed.cost == whole.cost > 0
    assert len(killed.findings) == DOCUMENTS - len(range(0, DOCUMENTS, 7))
    assert killed.stages[0].read == whole.stages[0].read
