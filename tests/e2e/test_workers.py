"""`serve --workers`: several processes behave as one service, and none of them is missed when it is killed."""

from __future__ import annotations

import os
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from context_engine.audit.checks.verify import verify
from context_engine.audit.ledger.copies import opened_copy
from context_engine.core.engine.search_plan import SystemClock
from tests.e2e.serving import Served, served

pytestmark = pytest.mark.slow
QUERY = "/api/v1/rag/query"
ASKED = {"query": "Who approves a new product?", "domain": "NPA"}
ALIKE = ("decision", "status", "chunks", "context_string")
WORKERS = 2
TOGETHER_S = 60.0


def together(running: Served) -> None:
    """Wait until every worker has told its metrics."""
    until = time.monotonic() + TOGETHER_S
    while len(workers_of(running)) < WORKERS:
        assert time.monotonic() < until, running.said
        time.sleep(0.2)


def workers_of(running: Served) -> set[str]:
    return set(re.findall(r'context_engine_info\{[^}]*worker="(\d+)"', running.read("/metrics")[1]))


def children(running: Served) -> list[int]:
    """Return the process ids of the workers, oldest first."""
    found = []
    for status in Path("/proc").glob("[0-9]*/status"):
        try:
            is_child = f"\nPPid:\t{running.process.pid}\n" in status.read_text()
            if is_child and b"spawn_main" in status.with_name("cmdline").read_bytes():
                found.append(int(status.parent.name))
        except OSError:
            continue
    return sorted(found)


def test_they_are_one_service(tmp_path: Path) -> None:
    env = {"CONTEXT_ENGINE_AUDIT_MODE": "required", "CONTEXT_ENGINE_AUDIT_LEDGER": str(tmp_path / "ledger.db")}
    limits = {"CONTEXT_ENGINE_SERVER_RATE_PER_MINUTE": "60", "CONTEXT_ENGINE_SERVER_RATE_BURST": "100"}
    with served(tmp_path, "--demo", "--workers", str(WORKERS), **env, **limits) as running:
        together(running)
        answers = _used(running)
    ledger = opened_copy(tmp_path / "ledger.db", SystemClock())
    try:
        assert verify(ledger).consistent
        assert all(ledger.entry(answer["search_id"]) for answer in answers)
    finally:
        ledger.close()


def _used(running: Served) -> list[dict[str, Any]]:
    """Ask, kill a worker, ask on, reload and stop; return the answers."""
    answers = [running.ask("POST", QUERY, ASKED)[1] for _ in range(6)]
    assert all(_alike(answer) == _alike(answers[0]) for answer in answers)
    # whoever found it, every worker can continue it
    assert all(
        running.ask("POST", "/api/v1/rag/context", {"search_id": answer["search_id"]})[0] == 200
        for answer in answers
        for _ in range(2)
    )

    killed = children(running)[0]
    os.kill(killed, signal.SIGKILL)
    running.wait_for_words(f"(process {killed}) ended with code -9: another takes its place")
    answers += [running.ask("POST", QUERY, ASKED)[1] for _ in range(4)]
    assert _alike(answers[-1]) == _alike(answers[0])
    together(running)
    assert len(children(running)) == WORKERS and killed not in children(running)

    refused = [running.ask("POST", QUERY, ASKED)[0] for _ in range(130)].count(429)
    assert refused > 0  # one bucket of 100 for all, not one for each

    running.signal(signal.SIGHUP)
    for _ in range(WORKERS):
        running.wait_for_words("the new configuration is in force")
    running.signal(signal.SIGTERM)
    assert running.process.wait(60) == 0
    return answers


def _alike(answer: dict[str, Any]) -> dict[str, Any]:
    """Return what two answers to one question share."""
    text = re.sub(r"[0-9a-f]{16,}|20\d\d-\d\d-\d\dT[^\"]*", "", str({name: answer[name] for name in ALIKE}))
    return {"text": text}
