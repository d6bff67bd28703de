"""Two replicas over one store in PostgreSQL with an access rule: one ledger there, one Redis, and erasures at once."""

from __future__ import annotations

import json
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

import pytest

from context_engine.adapters.result_caches.redis import connected
from tests.e2e.serving import Served, served
from tests.e2e.test_cache_replicas import (
    KEY,
    QUESTIONS,
    SETTINGS,
    ask,
    assert_one_unbroken_log,
    command,
    hits,
    proxy_of,
    question,
    timeless,
)
from tests.unit.service.small_bank import DOCUMENTS, manifest

pytestmark = pytest.mark.slow
REQUESTS, CLIENTS = 60, 4


class Bank(NamedTuple):
    """A bank whose documents stand in PostgreSQL, the board's under a rule that the caller does not meet."""

    folder: Path
    env: dict[str, str]

    def run(self, *words: str) -> str:
        done = command(self.folder, *words, "--config-dir", str(self.folder), **self.env)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    def ingest(self) -> None:
        self.run("ingest", "documents", "--domain", "ORM", "--to", "postgres")

    @contextmanager
    def served(self, **env: str) -> Iterator[Served]:
        with served(self.folder, "--config-dir", str(self.folder), **self.env, **env) as replica:
            yield replica


@pytest.fixture
def bank(tmp_path: Path, postgresql_server: Any) -> Bank:
    parts = urlsplit(postgresql_server.new_database())
    connection = {
        "base_url": f"postgresql://{parts.hostname}:{parts.port}{parts.path}",
        "user": parts.username,
        "api_key": "${STORE_PASSWORD}",
    }
    sources = manifest(rules=True)
    for source in sources["sources"]:
        source |= {"adapter": "postgres", "connection": "bank"}
    files = {
        **{f"documents/{name}": text for name, text in DOCUMENTS.items()},
        "config/rag-pipeline.json": json.dumps(SETTINGS),
        "config/connections.yaml": json.dumps({"bank": connection}),
        "manifests/orm.yaml": json.dumps(sources),
    }
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text, "utf-8")
    env = {
        "CONTEXT_ENGINE_AUDIT_LEDGER": postgresql_server.new_database(),
        "CONTEXT_ENGINE_DATA_DIR": str(tmp_path / "data"),
        "STORE_PASSWORD": str(parts.password),
    }
    bank = Bank(tmp_path, env)
    bank.ingest()
    return bank


@pytest.fixture
def shared(redis_server: Any) -> dict[str, str]:
    return {"CONTEXT_ENGINE_CACHE_URL": redis_server.url, "CONTEXT_ENGINE_CACHE_KEY": KEY}


def test_replicas_of_one_store_answer_alike_though_redis_is_killed(bank, redis_server, shared):
    with bank.served() as plain:
        expected = {query: timeless(plain.ask("POST", "/api/v1/rag/query", question(query))[1]) for query in QUESTIONS}
    assert not any("board" in json.dumps(answer) for answer in expected.values())
    with bank.served(**shared) as first, bank.served(**shared) as second, proxy_of(first, second) as port:
        answers = []
        with ThreadPoolExecutor(CLIENTS) as pool:
            asked = [QUESTIONS[number % len(QUESTIONS)] for number in range(REQUESTS)]
            for number, (query, answer) in enumerate(pool.map(lambda query: (query, ask(port, query)), asked)):
                if number == REQUESTS // 3:
                    redis_server.kill()
                answers.append((query, answer))
        assert hits(first) + hits(second) > REQUESTS // 2
        for replica in (first, second):
            replica.signal(signal.SIGTERM)
            assert replica.process.wait(30) == 0
    assert [query for query, answer in answers if timeless(answer) != expected[query]] == []
    place = ("--config-dir", str(bank.folder))
    assert_one_unbroken_log(bank.folder, place, bank.env, {answer["search_id"] for _, answer in answers})


def test_an_erasure_and_a_write_end_what_every_replica_kept(bank, redis_server, shared):
    def is_kept(replica: Served) -> bool:
        before = hits(replica)
        ask(replica.port, QUESTIONS[0])
        return hits(replica) > before

    with bank.served(**shared) as first, bank.served(**shared) as second:
        search_id = ask(first.port, QUESTIONS[0])["search_id"]
        assert is_kept(first)
        is_kept(second)
        assert is_kept(second)
        operator = bank._replace(env={**bank.env, **shared})
        operator.run("audit", "erase", "--query", search_id, "--reason", "a name in the question", "--yes")
        client = connected(redis_server.url)
        assert client.keys("*") == []
        client.close()
        assert not is_kept(first)
        assert is_kept(first)
        is_kept(second)  # from Redis, if it answered in time
        assert is_kept(second)
        (bank.folder / "documents/rules/a.md").write_text("# 1 Losses\n\nA loss event must be reported in 12 hours.\n")
        bank.ingest()
        assert not is_kept(first)
        assert "12 hours" in json.dumps(ask(second.port, QUESTIONS[0]))
        (bank.folder / "documents/board/minutes.md").write_text("# 1 Minutes\n\nThe board reads of each loss event.\n")
        bank.ingest()
        assert is_kept(first), "the caller may not read what has changed"
