"""Processes that record: killed at any moment they lose nothing they acknowledged; patched by gevent they go on."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("sqlalchemy")

from context_engine.audit.ledger.ledger import Ledger
from context_engine.core.engine import SystemClock

pytestmark = pytest.mark.slow

SEARCH = """
import sys
from context_engine import rag
PASSAGES = [{"content": f"Passage {n} says that the limit of desk {n} is set each year.", "relevance_score": 0.5}
            for n in range(30)]
pipeline = rag.create_rag_pipeline({})
def search(n):
    found = pipeline["retrieve"](f"limit of desk {n}", options={"adapter": lambda *a: PASSAGES})
    return found.result.search_id
"""
FOR_EVER = """
import threading
def work(start):
    n = start
    while True:
        sys.stdout.write(search(n) + "\\n")
        sys.stdout.flush()
        n += 1
for start in (0, 1_000_000):
    threading.Thread(target=work, args=(start,)).start()
"""
GEVENT = """
from gevent import monkey
monkey.patch_all()
import gevent
"""
TOGETHER = """
jobs = [gevent.spawn(search, n) for n in range(40)]
gevent.joinall(jobs, raise_error=True)
print("\\n".join(job.value for job in jobs))
"""


def environment(folder: Path, ledger: str, mode: str) -> dict[str, str]:
    own = {name: value for name, value in os.environ.items() if not name.startswith(("CONTEXT_ENGINE_", "RAG_"))}
    return {
        **own,
        "HOME": str(folder),
        "CONTEXT_ENGINE_AUDIT_MODE": mode,
        "CONTEXT_ENGINE_AUDIT_LEDGER": ledger,
        "CONTEXT_ENGINE_AUDIT_TIMEOUT_S": "60",
    }


def recorded(ledger: str) -> list[str]:
    """Return the ids in the log, after what waits was integrated; a naive root of its entries is the tree's."""
    with Ledger.open(ledger, origin="-", keyring=None, clock=SystemClock(), create=False) as opened:
        opened.integrate()
        assert opened.pending_count() == 0
        entries = list(opened.entries(0, opened.size))
        assert [one.index for one in entries] == list(range(len(entries))), "no gap"
        return [json.loads(one.entry or b"")["id"] for one in entries]


@pytest.fixture(params=["sqlite", "postgresql"])
def ledger(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the address of a ledger that is not there yet."""
    if request.param == "sqlite":
        return str(tmp_path / "ledger.db")
    server: Any = request.getfixturevalue("postgresql_server")
    return str(server.new_database())


def test_a_process_that_is_killed_has_lost_nothing_that_it_acknowledged(tmp_path: Path, ledger: str) -> None:
    acknowledged: list[str] = []
    moments = random.Random(16)
    for _ in range(6):
        process = subprocess.Popen(
            [sys.executable, "-c", SEARCH + FOR_EVER],
            cwd=tmp_path,
            env=environment(tmp_path, ledger, "required"),
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        acknowledged.append(process.stdout.readline().strip())  # it is under way
        time.sleep(moments.uniform(0.0, 0.5))
        process.send_signal(signal.SIGKILL)
        acknowledged += [line.strip() for line in process.stdout.read().splitlines(keepends=True) if line[-1] == "\n"]
        process.wait()
    found = recorded(ledger)
    assert len(acknowledged) > 6
    assert set(acknowledged) <= set(found)
    assert len(set(found)) == len(found)


@pytest.mark.parametrize("mode", ["best_effort", "required"])
def test_patched_by_gevent_everything_is_recorded(tmp_path: Path, ledger: str, mode: str) -> None:
    pytest.importorskip("gevent")
    done = subprocess.run(
        [sys.executable, "-c", GEVENT + SEARCH + TOGETHER],
        cwd=tmp_path,
        env=environment(tmp_path, ledger, mode),
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    ids = done.stdout.split()
    assert len(ids) == 40
    assert sorted(recorded(ledger)) == sorted(ids)


def test_a_forked_child_records_in_the_ledger_of_its_parent(tmp_path: Path, ledger: str) -> None:
    fork = """
import os
ids = [search(0)]
child = os.fork()
print(search(1 if child else 2), flush=True)
if child:
    print(ids[0])
    os.waitpid(child, 0)
"""
    done = subprocess.run(
        [sys.executable, "-c", SEARCH + fork],
        cwd=tmp_path,
        env=environment(tmp_path, ledger, "best_effort"),
        stdout=subprocess.PIPE,
        text=True,
        timeout=120,
        check=True,
    )
    ids = done.stdout.split()
    assert len(set(ids)) == 3
    assert sorted(recorded(ledger)) == sorted(ids)
