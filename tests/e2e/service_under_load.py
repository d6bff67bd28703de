"""A service under load: many clients, a source that goes wrong at random, and an ingest that never ends.

    python tests/e2e/service_under_load.py [--seconds 300] [--clients 64]

Prints what came of it, and leaves with 1 where an answer was wrong or something leaked.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import random
import re
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from urllib.parse import urlsplit

from context_engine.audit.ledger.ledger import Ledger
from context_engine.core.engine import SystemClock
from context_engine.testing import FakeDataset, FakeDify, FakeDocument

TOKEN = "a-token-for-this-test-alone-0123456789"
SECRET = "Project Falcon"
DESKS = ("amber", "birch", "cedar", "delta", "ember", "flint", "grove", "hazel")
FAULTS = ("status_500", "status_503", "reset", "dropped", "truncated", "rate_limited")
MANIFEST = """
version: 1
domain: ORM
sources:
  - {id: rules, type: bank_sop, documents: [{include: "rules/*.md"}]}
  - {id: board, type: bank_sop, access: {roles: [board]}, documents: [{include: "board/*.md"}]}
  - {id: notices, type: external_official, adapter: dify, connection: dify, dataset_ids: [DATASET],
     settings: {attempts: 1, cache_ttl_s: 0}}
"""
_FAILING, _OUTAGE = 0.25, 0.02
_HELD = ("VmRSS", "Threads")


def text(desk: str, version: int) -> str:
    """Return what a desk's rule says in a version."""
    return f"The {desk} desk has a loss limit of {1000 + version} a day, says version {version}."


@dataclass
class Seen:
    """What the clients and the watch saw.

    Attributes:
        wrong: answers that must not be, each in a sentence.
        held: (resident KiB, threads, open files) over time.
    """

    statuses: Counter[int] = field(default_factory=Counter)
    states: Counter[str] = field(default_factory=Counter)
    ids: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    ingests: int = 0
    held: list[tuple[int, int, int]] = field(default_factory=list)
    times: list[float] = field(default_factory=list)
    recorded: int = 0
    code: int | None = None


class Load:
    """One run over a bank in a folder of its own."""

    def __init__(self, folder: Path, seconds: float, clients: int) -> None:
        self.folder, self.seconds, self.clients = folder, seconds, clients
        self.seen, self.version, self.over = Seen(), 0, threading.Event()
        notices = [FakeDocument(desk, [f"The regulator wants the {desk} desk to report each loss."]) for desk in DESKS]
        self.dify = FakeDify([FakeDataset("notices", "economy", notices)])

    def run(self) -> Seen:
        """Return what was seen."""
        with self.dify:
            self._write_bank()
            self._ingest()
            with self._served() as (address, process):
                self._asked(address, self._done_after(2.0))  # warm
                others = [
                    threading.Thread(target=work)
                    for work in (self._break_at_random, self._ingest_on, lambda: self._watch(process.pid))
                ]
                for one in others:
                    one.start()
                self._asked(address, self._done_after(self.seconds))
                self.over.set()
                for one in others:
                    one.join()
            self.seen.code = process.returncode
        self._count_records()
        return self.seen

    @staticmethod
    def _done_after(seconds: float) -> float:
        return time.monotonic() + seconds

    def _env(self) -> dict[str, str]:
        return {
            **os.environ,
            "CONTEXT_ENGINE_API_TOKEN": TOKEN,
            "CONTEXT_ENGINE_AUDIT_LEDGER": str(self.folder / "ledger.db"),
            "CONTEXT_ENGINE_AUDIT_MODE": "required",
            "CONTEXT_ENGINE_SERVER_RATE_PER_MINUTE": "0",
            "CONTEXT_ENGINE_SERVER_DRAIN_S": "0.0",
        }

    def _command(self, *words: str) -> list[str]:
        places = ("--config-dir", str(self.folder), "--data-dir", str(self.folder / "data"))
        return [sys.executable, "-m", "context_engine", *words, *places]

    def _write_bank(self) -> None:
        dataset = self.dify.dataset_id("notices")
        connection = f"dify: {{base_url: {self.dify.base_url}, api_key: {self.dify.api_key}, max_connections: 8}}\n"
        for name, said in {
            "config/connections.yaml": connection,
            "manifests/orm.yaml": MANIFEST.replace("DATASET", dataset),
            "documents/board/minutes.md": f"# Minutes\n\n{SECRET}: the loss limit of every desk falls.\n",
        }.items():
            (self.folder / name).parent.mkdir(parents=True, exist_ok=True)
            (self.folder / name).write_text(said, "utf-8")
        (self.folder / "documents/rules").mkdir()

    def _ingest(self) -> None:
        """Write and ingest the next version of every desk's rule."""
        self.version += 1
        for desk in DESKS:
            said = f"# {desk.title()}\n\n{text(desk, self.version)}\n"
            (self.folder / f"documents/rules/{desk}.md").write_text(said, "utf-8")
        done = subprocess.run(
            self._command("ingest", str(self.folder / "documents"), "-d", "ORM"),
            env=self._env(), capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode != 0:
            self.seen.wrong.append(f"ingest {self.version} ended with {done.returncode}: {done.stderr[-300:]}")
        self.seen.ingests += 1

    def _ingest_on(self) -> None:
        while not self.over.wait(0.5):
            self._ingest()

    def _break_at_random(self) -> None:
        draw = random.Random(7)
        while not self.over.wait(draw.uniform(0.1, 1.0)):
            self.dify.heal()
            share = 1.0 if draw.random() < _OUTAGE else _FAILING
            calls = {number for number in range(1, 1000) if draw.random() < share}
            self.dify.inject(draw.choice(FAULTS), dataset="notices", endpoint="retrieve", calls=calls)
        self.dify.heal()

    def _watch(self, pid: int) -> None:
        while not self.over.wait(1.0):
            status = Path(f"/proc/{pid}/status").read_text()
            rss, threads = (int(re.findall(rf"{name}:\s+(\d+)", status)[0]) for name in _HELD)
            self.seen.held.append((rss, threads, len(list(Path(f"/proc/{pid}/fd").iterdir()))))

    @contextmanager
    def _served(self) -> Iterator[tuple[str, subprocess.Popen[str]]]:
        log = self.folder / "serve.log"
        with (
            log.open("w") as err,
            subprocess.Popen(self._command("serve", "--port", "0"), stderr=err, text=True, env=self._env()) as process,
        ):
            try:
                yield self._address(log, process), process
            finally:
                process.terminate()
                process.wait(30)

    @staticmethod
    def _address(log: Path, process: subprocess.Popen[str]) -> str:
        for _ in range(600):
            found = re.search(r"listening on\s+(http://\S+)", re.sub(r"\x1b\[[0-9;]*m", "", log.read_text()))
            if found:
                return found[1]
            if process.poll() is not None:
                break
            time.sleep(0.1)
        raise RuntimeError(f"the service did not start: {log.read_text()[-500:]}")

    def _asked(self, address: str, until: float) -> None:
        threads = [threading.Thread(target=self._client, args=(address, n, until)) for n in range(self.clients)]
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def _client(self, address: str, number: int, until: float) -> None:
        draw, connection = random.Random(number), http.client.HTTPConnection(urlsplit(address).netloc, timeout=60)
        headers = {"Authorization": f"Bearer {TOKEN}", "Content-Type": "application/json"}
        while time.monotonic() < until:
            desk = draw.choice(DESKS)
            body = json.dumps({"query": f"loss limit of the {desk} desk", "domain": "ORM"})
            begun = time.perf_counter()
            connection.request("POST", "/api/v1/rag/query", body, headers)
            answer = connection.getresponse()
            said = answer.read().decode()
            self.seen.times.append(time.perf_counter() - begun)
            self.seen.statuses[answer.status] += 1
            if answer.status == 200:
                self.seen.wrong += self._wrong(json.loads(said), said, desk)
            elif answer.status != 503 or not answer.headers["Retry-After"]:
                self.seen.wrong.append(f"{answer.status}: {said[:200]}")

    def _wrong(self, answer: dict[str, Any], said: str, desk: str) -> Iterator[str]:
        """Yield what is wrong with an answer."""
        self.seen.ids.append(answer["search_id"])
        states = {one["source_id"]: one["state"] for one in answer["sources"]}
        self.seen.states[f"{answer['status']}, notices {states.get('notices')}"] += 1
        if SECRET in said or "board" in states:
            yield f"{answer['search_id']} tells of what is hidden"
        whole = all(state in ("ok", "empty") for state in states.values())
        if (answer["status"] == "complete") != whole:
            yield f"{answer['search_id']} is {answer['status']}, and its sources are {states}"
        rules = [one["content"] for one in answer["chunks"] if one["namespace"] == "rules"]
        own = [one for one in rules if f"The {desk} desk" in one]
        known = {text(name, version) for name in DESKS for version in range(1, self.version + 1)}
        if len(own) != 1 or any(_sentence(one) not in known for one in rules):
            yield f"{answer['search_id']} has not the one rule of the {desk} desk: {rules}"

    def _count_records(self) -> None:
        """Every answer that was given must stand in the ledger."""
        with Ledger.open(
            str(self.folder / "ledger.db"), origin="", keyring=None, clock=SystemClock(), create=False
        ) as ledger:
            missing = [one for one in self.seen.ids if ledger.entry(one) is None]
            ledger.integrate()
            self.seen.recorded = ledger.size
        if missing:
            self.seen.wrong.append(f"{len(missing)} answers were given unrecorded")


def _sentence(content: str) -> str:
    return content.splitlines()[-1]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=300.0)
    parser.add_argument("--clients", type=int, default=64)
    options = parser.parse_args()
    with TemporaryDirectory() as folder:
        seen = Load(Path(folder), options.seconds, options.clients).run()
    times = sorted(seen.times)
    print(f"{len(times)} requests: {dict(seen.statuses)}; {dict(seen.states)}; {seen.ingests} ingests")
    print(f"p50 {1000 * times[len(times) // 2]:.0f} ms, p99 {1000 * times[len(times) * 99 // 100]:.0f} ms")
    for moment in (seen.held[0], seen.held[len(seen.held) // 2], seen.held[-1]):
        print(f"{moment[0] / 1024:.0f} MiB resident, {moment[1]} threads, {moment[2]} open files")
    print(f"{seen.recorded} records; exit code {seen.code}; {len(seen.wrong)} wrong: {seen.wrong[:5]}")
    return 1 if seen.wrong or seen.code else 0


if __name__ == "__main__":
    sys.exit(main())
