"""Two replicas behind a proxy that takes turns, one Redis and one ledger: equal answers, whatever becomes of Redis."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.result_caches.redis import connected
from context_engine.audit.ledger.ledger import Ledger
from context_engine.core.engine.search_plan import SystemClock
from tests.e2e.serving import AS_API, Served, served
from tests.unit.service.small_bank import small_bank

pytestmark = pytest.mark.slow

KEY = "fictitious-key-of-a-test-4711-0815"
SETTINGS = {"search": {"cache_ttl_s": 300.0}, "audit": {"audit_mode": "required", "audit_timeout_s": 60.0}}
QUESTIONS = ("report a loss event", "late reports", "event without a loss", "zebra crossing in Vienna")
ROUNDS, CLIENTS = 25, 6
OF_EACH_SEARCH = ("search_id", "request_id", "retrieved_at")


class Proxy(ThreadingHTTPServer):
    """Hands each request to the next replica."""

    daemon_threads = True

    def __init__(self, ports: list[int]) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.turns = itertools.cycle(ports)


class Handler(BaseHTTPRequestHandler):
    server: Proxy

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        replica = http.client.HTTPConnection("127.0.0.1", next(self.server.turns), timeout=60)
        replica.request("POST", self.path, body, AS_API)
        answer = replica.getresponse()
        data = answer.read()
        replica.close()
        self.send_response(answer.status)
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_words: Any) -> None:
        pass


@contextmanager
def proxy_of(*replicas: Served) -> Iterator[int]:
    with Proxy([replica.port for replica in replicas]) as proxy:
        thread = threading.Thread(target=proxy.serve_forever, daemon=True)
        thread.start()
        yield proxy.server_address[1]
        proxy.shutdown()
        thread.join(10)


def ask(port: int, query: str) -> dict[str, Any]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    connection.request("POST", "/api/v1/rag/query", json.dumps(question(query)), AS_API)
    answer = connection.getresponse()
    said: dict[str, Any] = json.loads(answer.read())
    connection.close()
    assert answer.status == 200, said
    return said


def timeless(value: Any) -> Any:
    """An answer without ids, times and the remark that it came from the cache."""
    if isinstance(value, dict):
        return {
            name: timeless(item)
            for name, item in value.items()
            if name not in (*OF_EACH_SEARCH, "warnings") and not name.endswith("_ms")
        }
    return [timeless(item) for item in value] if isinstance(value, list) else value


def hits(replica: Served) -> float:
    connection = http.client.HTTPConnection("127.0.0.1", replica.port, timeout=60)
    connection.request("GET", "/metrics", headers=AS_API)
    text = connection.getresponse().read().decode()
    connection.close()
    lines = [line for line in text.splitlines() if line.startswith("context_engine_cache_lookups_total{")]
    return sum(float(line.rsplit(" ", 1)[1]) for line in lines if 'outcome="hit"' in line)


def command(folder: Path, *words: str, **env: str) -> subprocess.CompletedProcess[str]:
    known = {name: value for name, value in os.environ.items() if not name.startswith("CONTEXT_ENGINE_")}
    return subprocess.run(
        [sys.executable, "-m", "context_engine", *words],
        cwd=folder,
        env={**known, "HOME": str(folder), **env},
        capture_output=True,
        text=True,
    )


@pytest.fixture
def ledger(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue("postgresql_server").new_database())


def test_replicas_answer_alike_before_and_after_redis_is_killed(tmp_path, redis_server, ledger):
    env = {"CONTEXT_ENGINE_AUDIT_LEDGER": ledger}
    small_bank(tmp_path, rules=False, settings=SETTINGS).close()
    place = ("--config-dir", str(tmp_path), "--data-dir", str(tmp_path / "data"))
    shared = {"CONTEXT_ENGINE_CACHE_URL": redis_server.url, "CONTEXT_ENGINE_CACHE_KEY": KEY, **env}
    with served(tmp_path, *place, **env) as plain:
        expected = {query: timeless(plain.ask("POST", "/api/v1/rag/query", question(query))[1]) for query in QUESTIONS}
    answers: list[tuple[str, Any, str]] = []
    with (
        served(tmp_path, *place, **shared) as first,
        served(tmp_path, *place, **shared) as second,
        proxy_of(first, second) as port,
    ):
        assert shares(first, second), "what one replica has answered, the other finds in Redis"
        poison(redis_server.url)
        with ThreadPoolExecutor(CLIENTS) as pool:
            for place_in_load, (query, said) in enumerate(
                pool.map(lambda query: (query, ask(port, query)), QUESTIONS * ROUNDS)
            ):
                if place_in_load == len(QUESTIONS) * ROUNDS // 3:
                    redis_server.kill()
                answers.append((query, timeless(said), said["search_id"]))
        assert hits(first) > ROUNDS and hits(second) > ROUNDS
        for replica in (first, second):
            assert sum("cache in Redis is not used for now" in line for line in replica.said) <= 1
            assert not any("not-a-secret" in line or KEY in line for line in replica.said)
            replica.signal(signal.SIGTERM)
            assert replica.process.wait(30) == 0
    assert [(query, said) for query, said, _ in answers if said != expected[query]] == []
    assert_one_unbroken_log(tmp_path, place, env, {search_id for *_, search_id in answers})


def question(query: str) -> dict[str, Any]:
    return {"query": query, "domain": "ORM", "include_context_string": False}


def shares(first: Served, second: Served) -> bool:
    """Ask a question of the first and then of the second replica; again with others, since Redis may be slow here."""
    for number in range(50):
        query = f"report a loss event {number}"
        ask(first.port, query)
        before = hits(second)
        ask(second.port, query)
        if hits(second) > before:
            return True
    return False


def poison(url: str) -> None:
    """Replace every value by another answer's, as somebody could who may write to this Redis."""
    client = connected(url)
    names = client.keys("*")
    values = [client.get(name) for name in names]
    for name, value in zip(names, [*values[1:], b"{}"], strict=True):
        client.set(name, value, keepttl=True)
    client.close()


def assert_one_unbroken_log(folder: Path, place: tuple[str, ...], env: dict[str, str], search_ids: set[str]) -> None:
    verified = command(folder, "audit", "verify", *place, **env)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    address = env["CONTEXT_ENGINE_AUDIT_LEDGER"]
    with Ledger.open(address, origin="context-engine/audit", keyring=None, clock=SystemClock(), create=False) as log:
        entries = [json.loads(record.entry or b"{}") for record in log.entries(0, log.size)]
    searches = {entry["id"]: entry for entry in entries if entry["kind"] == "search"}
    assert search_ids <= searches.keys()
    from_cache = [search_id for search_id in search_ids if "cache" in searches[search_id]]
    assert len(from_cache) > len(search_ids) // 2
    replayed = command(folder, "audit", "replay", from_cache[0], *place, **env)
    assert replayed.returncode == 0, replayed.stdout + replayed.stderr
