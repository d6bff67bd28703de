"""A job over many documents whose process is killed again and again remembers what an undisturbed one does."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest

from context_engine.jobs.contract import job_out
from context_engine.jobs.owned import OwnedJobs
from context_engine.jobs.store import JobStore, open_store
from context_engine.service.deployment import Deployment, open_deployment
from context_engine.wiring.setup import load_setup
from tests.e2e.job_process import CLERK, MODEL

QUESTION = "What is the facility limit?"
MANIFEST = {"version": 1, "domain": "LOANS", "sources": [{"id": "policies", "type": "bank_sop"}]}
PRICE = {
    "model": MODEL,
    "valid_from": "2020-01-01",
    "currency": "USD",
    "input_per_million": 3,
    "output_per_million": 15,
}
TIMES = (
    "job_id",
    "source_id",
    "id",
    "started_at",
    "completed_at",
    "time_elapsed_hours",
    "search_id",
    "answer_id",
    "closed_at",
    "fetched_at",
)


def made_bank(tmp_path: Path, documents: int) -> Path:
    """A domain without documents, and agreements, of which every seventh states no limit."""
    for name in ("config", "manifests", "agreements"):
        (tmp_path / name).mkdir()
    (tmp_path / "manifests/loans.yaml").write_text(json.dumps(MANIFEST))
    (tmp_path / "config/rag-pipeline.json").write_text(json.dumps({"prices": [PRICE]}))
    for number in range(documents):
        text = "Fees are paid in arrears." if number % 7 == 0 else f"The facility limit is USD {number} million."
        (tmp_path / f"agreements/{number:03}.md").write_text(f"# Agreement {number}\n\n{text}\n")
    return tmp_path


def opened(bank: Path, machine: str) -> Deployment:
    return open_deployment(load_setup(config_dir=bank, env={"HOME": str(bank)}, cwd=bank), data_dir=bank / machine)


def started(bank: Path, machine: str) -> str:
    with closing(opened(bank, machine)) as deployment:
        jobs = OwnedJobs(deployment, CLERK)
        job_id = jobs.start("Review of the agreements").job_id
        jobs.add(job_id, "constraint", "Amounts in USD.")
        jobs.add_documents(job_id, bank / "agreements")
    return job_id


def process(bank: Path, machine: str, job_id: str) -> subprocess.Popen[bytes]:
    command = [sys.executable, "-m", "tests.e2e.job_process", str(bank), str(bank / machine), job_id, QUESTION]
    return subprocess.Popen(command, env=dict(os.environ))


def killed_at(running: subprocess.Popen[bytes], store: JobStore, job_id: str, documents: int, later_s: float) -> bool:
    """Kill a process when that many documents are read, and some time later; return whether it was running still."""
    until = time.monotonic() + 600
    while (stage := store.memory(job_id).current) is None or len(stage.read) < documents:
        assert time.monotonic() < until
        if running.poll() is not None:
            return False
        time.sleep(0.1)
    time.sleep(later_s)
    running.kill()
    return running.wait() < 0


def timeless(value: Any) -> Any:
    """Return a memory without its times and the ids of its records."""
    if isinstance(value, dict):
        return {name: timeless(each) for name, each in value.items() if name not in TIMES}
    return [timeless(each) for each in value] if isinstance(value, list) else value


def check(bank: Path, documents: int, kills: int, machines: tuple[str, ...]) -> None:
    """Run a job undisturbed, and another one whose processes are killed on one machine after the other.

    Args:
        machines: those that share the killed job; the first starts it.
    """
    whole_id, job_id = started(bank, "whole"), started(bank, machines[0])
    begun = time.monotonic()
    assert process(bank, "whole", whole_id).wait() == 0
    undisturbed = time.monotonic() - begun

    store = open_store(opened(bank, machines[0]).setup, bank / machines[0])
    chance, killed, begun = random.Random(7), 0, time.monotonic()
    for number, read in enumerate(sorted(chance.sample(range(documents * 9 // 10), kills))):
        running = process(bank, machines[number % len(machines)], job_id)
        killed += killed_at(running, store, job_id, read, chance.uniform(0, 0.05))
    assert process(bank, machines[-1], job_id).wait() == 0

    whole, disturbed = open_store(opened(bank, "whole").setup, bank / "whole").memory(whole_id), store.memory(job_id)
    assert killed == kills
    assert timeless(job_out(disturbed).model_dump(mode="json")) == timeless(job_out(whole).model_dump(mode="json"))
    assert disturbed.cost == whole.cost > 0
    assert len(disturbed.findings) == documents - len(range(0, documents, 7))
    assert [finding.text for finding in disturbed.findings] == [finding.text for finding in whole.findings]
    assert disturbed.stages[0].read == whole.stages[0].read
    sums = f"{len(disturbed.findings)} findings, cost {disturbed.cost} and {whole.cost}"
    seconds = f"{undisturbed:.0f} s undisturbed, {time.monotonic() - begun:.0f} s with the kills"
    sys.stdout.write(f"\n{documents} documents, {killed} kills on {len(machines)} machines: {sums}; {seconds}\n")


SIZES = [pytest.param(60, 4, marks=pytest.mark.slow), pytest.param(300, 20, marks=pytest.mark.benchmark)]
signals = pytest.mark.skipif(os.name != "posix", reason="signals")


@signals
@pytest.mark.parametrize(("documents", "kills"), SIZES)
def test_a_job_that_is_killed_again_and_again_remembers_the_same(tmp_path: Path, documents: int, kills: int) -> None:
    check(made_bank(tmp_path, documents), documents, kills, ("one",))


@signals
@pytest.mark.parametrize(("documents", "kills"), SIZES)
def test_a_job_in_postgresql_goes_on_on_another_machine(
    tmp_path: Path, postgresql_server: Any, documents: int, kills: int
) -> None:
    bank, parts = made_bank(tmp_path, documents), urlsplit(postgresql_server.new_database())
    address = f"postgresql://{parts.hostname}:{parts.port}{parts.path}"
    connection = {"base_url": address, "user": parts.username, "api_key": parts.password}
    (bank / "config/connections.yaml").write_text(json.dumps({"bank": connection}))
    (bank / "config/rag-pipeline.json").write_text(json.dumps({"prices": [PRICE], "jobs_connection": "bank"}))
    check(bank, documents, kills, ("one", "two"))
