"""The ledger inside a process that gevent has patched, as the plugin runtime is: many records at once."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = """
from gevent import monkey

monkey.patch_all()

import runpy
import sys

import gevent

process = runpy.run_path(sys.argv[1])
turns = []


def work(name, ledger):
    for number in range(20):
        ledger.append([process["draft_of"](name, number)])
        turns.append(name)
        if number % 5 == 0:
            ledger.integrate()


with process["open_ledger"](sys.argv[2]) as ledger:
    jobs = [gevent.spawn(work, f"g{n}", ledger) for n in range(12)]
    gevent.joinall(jobs, timeout=100, raise_error=True)
    assert all(job.successful() for job in jobs)
    ledger.integrate()
    print(ledger.size, ledger.pending_count(), len(set(turns[:20])) > 1)
"""


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_greenlets_append_together(kind: str, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    if kind == "sqlite":
        place = str(tmp_path / "ledger.db")
    else:
        place = request.getfixturevalue("postgresql_server").new_database()
    ran = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(Path(__file__).with_name("ledger_process.py")), place],
        capture_output=True, text=True, timeout=200, cwd=tmp_path,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    size, waiting, took_turns = ran.stdout.split()
    assert (size, waiting) == ("240", "0")
    if kind == "postgresql":  # where a socket is waited for, the others get their turn
        assert took_turns == "True"
