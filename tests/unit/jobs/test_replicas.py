"""Two machines over one PostgreSQL see the same jobs; a deleted job leaves its words nowhere in the database."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

from context_engine.adapters.result_caches.redis import connected
from context_engine.audit.ledger.erase import Wanted, erase
from context_engine.core.models import SearchRequest
from context_engine.errors import CostLimitReached, JobNotFound, JobsUnavailable, StoreLocked
from context_engine.jobs.owned import OwnedJobs
from context_engine.jobs.store import open_store
from context_engine.service.deployment import Deployment, DeploymentChat
from context_engine.testing.fakes import FixedClock
from context_engine.wiring.audit import open_ledger
from context_engine.wiring.audit_writers import close_writers
from tests.e2e.job_process import QuotingModel
from tests.e2e.test_job_killed import PRICE
from tests.unit.jobs.test_erased import WORDS, holding
from tests.unit.service.small_bank import CHAIR, CLERK, caller, searched, small_bank

pytestmark = pytest.mark.slow
LIMIT = "What is the facility limit?"
AUDITED = {"audit": {"audit_mode": "required", "audit_timeout_s": 60.0}, "jobs": {"jobs_connection": "bank"}}


@contextmanager
def machine(
    folder: Path, dsn: str, settings: Mapping[str, Any] = AUDITED, env: Mapping[str, str] | None = None
) -> Iterator[Deployment]:
    """A deployment with a data folder of its own, whose jobs are kept in a database."""
    parts = urlsplit(dsn)
    address = f"postgresql://{parts.hostname}:{parts.port}{parts.path}"
    connection = {"base_url": address, "user": parts.username, "api_key": "${JOBS_PASSWORD}"}
    (folder / "config").mkdir(parents=True, exist_ok=True)
    (folder / "config/connections.yaml").write_text(json.dumps({"bank": connection}))
    given = {"JOBS_PASSWORD": str(parts.password), **(env or {})}
    with closing(small_bank(folder, settings=settings, env=given)) as deployment:
        yield deployment


@pytest.fixture
def agreements(tmp_path: Path) -> Path:
    (tmp_path / "given").mkdir()
    for number in (1, 2, 3):
        text = f"# Agreement {number}\n\nThe facility limit of {WORDS[0]} Ltd is USD {number} million.\n"
        (tmp_path / f"given/{number}.md").write_text(text)
    return tmp_path / "given"


def after(documents: int) -> Callable[[], bool]:
    """Stops a run after some documents."""
    answers = iter([False] * documents + [True])
    return lambda: next(answers)


def test_a_run_goes_on_on_another_machine(tmp_path, postgresql_server, agreements):
    dsn = postgresql_server.new_database()
    with machine(tmp_path / "one", dsn) as one, machine(tmp_path / "two", dsn) as two:
        first, second = OwnedJobs(one, caller(CLERK)), OwnedJobs(two, caller(CLERK))
        job_id = first.start("Review").job_id
        first.add_documents(job_id, agreements)
        first.run(job_id, LIMIT, stopped=after(1))
        assert second.memory(job_id).current.read == ("1",)
        assert [document.document_id for document in second.documents(job_id)] == ["1", "2", "3"]

        with open_store(one.setup, one.data_dir).lock(job_id):
            assert second.is_running(job_id)
            with pytest.raises(StoreLocked, match="running already"):
                second.run(job_id)
        memory = second.run(job_id)
        assert first.memory(job_id) == memory
        assert (memory.state, memory.stages[0].read) == ("completed", ("1", "2", "3"))
        assert [finding.text[-14:] for finding in memory.findings] == [f"USD {n} million." for n in (1, 2, 3)]

        request = SearchRequest(query=f"facility limit of {WORDS[0]}", domain="ORM", principal=CLERK)
        assert all(WORDS[0] not in chunk.content for chunk in searched(two, CLERK, request.query).chunks)
        assert any(WORDS[0] in item.text for item in second.ask(job_id, request).evidence)
        assert OwnedJobs(two, caller(CHAIR)).all() == []
        second.delete(job_id)
        with pytest.raises(JobNotFound):
            first.memory(job_id)
        assert first.all() == []
    close_writers()


def test_a_server_that_went_away_ends_the_run_and_the_rest_is_read_later(tmp_path, postgresql_server, agreements):
    dsn = postgresql_server.new_database()
    with machine(tmp_path / "one", dsn) as deployment:
        jobs = OwnedJobs(deployment, caller(CLERK))
        job_id = jobs.start("Review").job_id
        jobs.add_documents(job_id, agreements)

        def interrupted(done: int, _total: int, _name: str) -> None:
            if done == 1:
                ended = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid != pg_backend_pid()"
                postgresql_server.execute(f"{ended} AND datname = current_database()", dsn)

        with pytest.raises(JobsUnavailable, match="connection 'bank'"):
            jobs.run(job_id, LIMIT, progress=interrupted)
        assert jobs.memory(job_id).current.read == ("1",)
        assert jobs.run(job_id).stages[0].read == ("1", "2", "3")
    close_writers()


def test_a_budget_holds_though_another_machine_spent_of_it(tmp_path, postgresql_server, agreements, monkeypatch):
    monkeypatch.setattr(DeploymentChat, "model", lambda _self: QuotingModel())
    dsn, settings = postgresql_server.new_database(), {**AUDITED, "cost": {"prices": [PRICE]}}
    with machine(tmp_path / "one", dsn, settings) as one, machine(tmp_path / "two", dsn, settings) as two:
        first, second = OwnedJobs(one, caller(CLERK)), OwnedJobs(two, caller(CLERK))
        job_id = first.start("Review", budget_limit=Decimal("0.006")).job_id
        first.add_documents(job_id, agreements)
        assert Decimal("0.003") < first.run(job_id, LIMIT, stopped=after(1)).cost < Decimal("0.006")
        with pytest.raises(CostLimitReached):
            second.run(job_id)
        assert second.memory(job_id).current.read == ("1",)
    close_writers()


def rows(dsn: str) -> str:
    """Every row of every table of a database, the statistics of the server included."""
    with psycopg.connect(dsn) as connection:
        tables = connection.execute(
            "SELECT oid::regclass::text FROM pg_class WHERE relkind IN ('r', 'm') AND relpersistence = 'p'"
        ).fetchall()
        texts = [connection.execute(f"SELECT t::text FROM {table} AS t").fetchall() for (table,) in tables]  # type: ignore[call-overload]
    return "\n".join(row[0] for table in texts for row in table).lower()


def dumped(server: Any, dsn: str) -> str:
    """The database as pg_dump writes it; "" where this PostgreSQL has no pg_dump."""
    program = server._programs / "pg_dump"
    if not program.exists():
        return ""
    return subprocess.run([program, dsn], capture_output=True, check=True).stdout.decode().lower()


def stored(server: Any, dsn: str) -> bytes:
    """Every file of a database; the write-ahead log is left out."""
    server.execute("CHECKPOINT")
    with psycopg.connect(dsn) as connection:
        row = connection.execute("SELECT oid FROM pg_database WHERE datname = current_database()").fetchone()
    return b"".join(path.read_bytes() for path in (server._folder / f"data/base/{row[0]}").iterdir()).lower()  # type: ignore[index]


def words_in(text: str | bytes) -> list[str]:
    return [word for word in WORDS if (word.lower().encode() if isinstance(text, bytes) else word.lower()) in text]


def test_a_deleted_job_leaves_its_words_nowhere_in_the_database(tmp_path, postgresql_server, agreements):
    agreement, question, risk, rule = WORDS
    dsn = postgresql_server.new_database()
    with machine(tmp_path / "bank", dsn) as bank:
        jobs = OwnedJobs(bank, caller(CLERK))
        job_id = jobs.start("Review").job_id
        jobs.add_documents(job_id, agreements)
        jobs.add(job_id, "risk", f"{risk} has not signed.")
        jobs.add(job_id, "constraint", f"Nothing about {rule}.")
        jobs.run(job_id, f"What is the facility limit that {question} asked for?")
        postgresql_server.execute("ANALYZE", dsn)
        assert words_in(rows(dsn)) == list(WORDS)
        assert words_in(dumped(postgresql_server, dsn)) in ([], list(WORDS))
        assert words_in(stored(postgresql_server, dsn)) == list(WORDS)

        jobs.delete(job_id)
        assert words_in(rows(dsn)) == words_in(dumped(postgresql_server, dsn)) == []
        postgresql_server.execute("VACUUM FULL", dsn)
        assert words_in(stored(postgresql_server, dsn)) == []
    close_writers()
    with closing(open_ledger(bank.setup, bank.data_dir)) as ledger:
        erase(ledger, Wanted(sources=(job_id,)), reason="the mandate has ended", by="clerk", clock=FixedClock())
    shutil.rmtree(agreements)
    assert holding(tmp_path / "bank") == {word: [] for word in WORDS}

    with machine(tmp_path / "bank", dsn, {**AUDITED, "audit": {"audit_mode": "off"}}) as bank:
        request = SearchRequest(query=f"facility limit of {agreement}", domain="ORM", principal=CLERK)
        with pytest.raises(JobNotFound):
            OwnedJobs(bank, caller(CLERK)).ask(job_id, request)
        assert all(agreement not in chunk.content for chunk in searched(bank, CLERK, request.query).chunks)


def test_no_cache_keeps_an_answer_of_a_job(tmp_path, postgresql_server, redis_server, agreements):
    shared = {"CONTEXT_ENGINE_CACHE_URL": redis_server.url, "CONTEXT_ENGINE_CACHE_KEY": "k" * 32}
    settings = {**AUDITED, "cache_ttl_s": 60.0}
    with machine(tmp_path / "bank", postgresql_server.new_database(), settings, shared) as bank:
        redis = connected(redis_server.url)
        jobs = OwnedJobs(bank, caller(CLERK))
        job_id = jobs.start("Review").job_id
        jobs.add_documents(job_id, agreements)
        jobs.run(job_id, LIMIT)
        request = SearchRequest(query=f"facility limit of {WORDS[0]}", domain="ORM", principal=CLERK)
        jobs.ask(job_id, request)
        assert redis.keys("*") == []
        searched(bank, CLERK, request.query)
        assert len(redis.keys("*")) == 1  # of a search outside the job
        redis.close()
    close_writers()
