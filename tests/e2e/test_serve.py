"""The service as a process: what its OpenAPI document promises, reload and stop while it is asked."""

from __future__ import annotations

import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.serving import AS_API, TOKEN, Served, served
from tests.unit.service.small_bank import small_bank

QUESTION = {"query": "report a loss event", "domain": "ORM", "include_context_string": False}
BEFORE = {"server": {"server_rate_per_minute": 0}, "audit": {"audit_mode": "best_effort"}}
SCHEMATHESIS = """
[generation]
allow-x00 = false

[checks]
enabled = true
# A schema cannot say all that is refused: a domain that there is not, an expression that cannot be read.
positive_data_acceptance.expected-statuses = ["2xx", 400, 401, 403, 404, 409, 410, 422, 429]
# Such a body may also be too long, or name an answer that is no longer kept.
negative_data_rejection.expected-statuses = [400, 401, 403, 404, 409, 410, 413, 415, 422, 429, "5xx"]

[[operations]]
include-path = "/retrieval"
# Dify's form of a refusal: 403 where HTTP has 401.
checks.missing_required_header.enabled = false
checks.positive_data_acceptance.expected-statuses = ["2xx", 400, 403, 424]
"""


@pytest.mark.slow
def test_every_answer_is_as_the_openapi_document_says(tmp_path: Path) -> None:
    small_bank(tmp_path, settings={**BEFORE, "server": {"server_rate_per_minute": 0, "server_drain_s": 60.0}}).close()
    (tmp_path / "st.toml").write_text(SCHEMATHESIS)
    with served(tmp_path, "--config-dir", str(tmp_path), "--data-dir", str(tmp_path / "data")) as one:
        tool = [sys.executable, "-m", "schemathesis.cli", "--config-file", str(tmp_path / "st.toml"), "run"]
        address = f"http://127.0.0.1:{one.port}/openapi.json"
        options = ["--max-examples", "3", "--seed", "7", "--header", f"Authorization: Bearer {TOKEN}"]
        ran = subprocess.run([*tool, address, *options], cwd=tmp_path, capture_output=True, text=True)
        assert ran.returncode == 0, ran.stdout[-5000:]
        assert not [line for line in one.said if "Traceback" in line]
        with socket.create_connection(("127.0.0.1", one.port), timeout=30) as connection:
            connection.sendall(b"no HTTP at all\r\n\r\n")
            answer = connection.makefile("rb").read()
        assert answer.startswith(b"HTTP/1.1 400 ") and b"application/problem+json" in answer
        one.signal(signal.SIGTERM)
        one.wait_for_words("stopping")
        status, problem = one.ask("GET", "/readyz")
        assert (status, problem["code"]) == (503, "not_ready")
        one.signal(signal.SIGTERM)  # the second: at once, though a minute of draining is left
        assert one.process.wait(30) == 128 + signal.SIGTERM


@dataclass
class Askers:
    """Clients that ask one question after the other until the port is closed."""

    port: int
    answers: list[tuple[int, Any]] = field(default_factory=list)
    lost: list[Exception] = field(default_factory=list)
    threads: list[threading.Thread] = field(default_factory=list)

    def start(self, count: int) -> None:
        self.threads = [threading.Thread(target=self._ask, daemon=True) for _ in range(count)]
        for thread in self.threads:
            thread.start()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(30)
        assert not any(thread.is_alive() for thread in self.threads)

    def _ask(self) -> None:
        while True:
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=30)
            try:
                connection.connect()
            except OSError:
                return
            try:
                if not self._ask_on(connection):
                    return
            finally:
                connection.close()

    def _ask_on(self, connection: http.client.HTTPConnection) -> bool:
        """Ask until the service closes the connection; False where it did so before it had taken a request."""
        fresh = True
        while True:
            try:
                connection.request("POST", "/api/v1/rag/query", json.dumps(QUESTION), AS_API)
                answer = connection.getresponse()
                self.answers.append((answer.status, json.loads(answer.read())))
            except (OSError, http.client.HTTPException) as error:
                if not (fresh and isinstance(error, ConnectionResetError)):  # the port was closed, nothing was accepted
                    self.lost.append(error)
                return False
            if answer.will_close:
                return True
            fresh = False


def chunks(one: Served) -> int:
    status, answer = one.ask("POST", "/api/v1/rag/query", QUESTION)
    assert status == 200, answer
    return len(answer["chunks"])


@pytest.mark.slow
def test_nothing_is_lost_by_a_reload_or_a_stop(tmp_path: Path) -> None:
    small_bank(tmp_path, settings=BEFORE).close()
    settings = tmp_path / "config/rag-pipeline.json"
    place = ("--config-dir", str(tmp_path), "--data-dir", str(tmp_path / "data"))
    ledger = {"CONTEXT_ENGINE_AUDIT_LEDGER": str(tmp_path / "ledger.db")}
    with served(tmp_path, *place, **ledger) as one:
        asked = [chunks(one)]
        askers = Askers(one.port)
        askers.start(4)
        settings.write_text(json.dumps({**BEFORE, "search": {"stage2_top_k": 1}}))
        one.signal(signal.SIGHUP)
        one.wait_for_words("the new configuration is in force")
        asked.append(chunks(one))
        settings.write_text('{"stage2_top_kk": 1}')
        one.signal(signal.SIGHUP)
        one.wait_for_words("the new configuration is refused")
        asked.append(chunks(one))
        assert one.ask("GET", "/readyz")[1]["reload_failed"] is True
        assert asked[0] > asked[1] == asked[2] == 1
        one.signal(signal.SIGTERM)
        assert one.process.wait(30) == 0
        askers.join()
    assert askers.lost == []
    assert {status for status, _ in askers.answers} == {200}
    settings.write_text(json.dumps(BEFORE))
    recorded = recorded_searches(tmp_path, *place, **ledger)
    assert {answer["search_id"] for _, answer in askers.answers} <= recorded
    assert len(recorded) == len(askers.answers) + len(asked)


def recorded_searches(folder: Path, *place: str, **env: str) -> set[str]:
    """The ids of all searches in the ledger."""
    command = [
        sys.executable,
        "-m",
        "context_engine",
        "audit",
        "list",
        "--kind",
        "search",
        "--jsonl",
        "--limit",
        "100000",
        *place,
    ]
    ran = subprocess.run(command, cwd=folder, env={"HOME": str(folder), **env}, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return {json.loads(line)["record_id"] for line in ran.stdout.splitlines()}
