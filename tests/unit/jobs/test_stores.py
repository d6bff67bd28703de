"""What every store of jobs does, on the data folder and on a PostgreSQL server."""

from __future__ import annotations

from abc import abstractmethod
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from pydantic import SecretStr

from context_engine.errors import ConfigError, JobNotFound, JobsUnavailable, StoreLocked, StoreVersionMismatch
from context_engine.jobs.events import ConstraintAdded, JobEvent, RiskAdded, StageBegun
from context_engine.jobs.folder_store import FolderJobs
from context_engine.jobs.memory import JobMemory
from context_engine.jobs.postgres_store import PostgresJobs
from context_engine.jobs.store import JobStore, open_store, started_event
from context_engine.settings.connections import Connection
from context_engine.wiring.jobs import JobDatabase, job_database
from context_engine.wiring.setup import load_setup
from tests.unit.jobs.conftest import BEGIN, event, finding, read

UNKNOWN = "job-20260302-090000-ffffff"


class StoreContract:
    """The behaviour of a `JobStore`; each test opens the same store a second time, as another process does."""

    @abstractmethod
    def opened(self) -> JobStore:
        """The store, opened anew."""

    @pytest.fixture
    def job(self) -> JobMemory:
        started = started_event("Review", "ORM", now=BEGIN, starter="jo", budget_limit=Decimal("2.50"))
        return self.opened().start(started)

    def test_a_job_is_remembered_as_it_was_started(self, job):
        assert self.opened().memory(job.job_id) == job
        assert (job.title, job.domain, job.starter, job.budget_limit) == ("Review", "ORM", "jo", Decimal("2.50"))

    def test_events_are_kept_once(self, job):
        added = [
            event(1, "stage-1", StageBegun(stage=1, question="What is the limit?", documents=2)),
            read(2, "a.md", finding("a.md"), cost="0.0012"),
        ]
        self.opened().add(job.job_id, added)
        self.opened().add(job.job_id, added[1:])
        memory = self.opened().memory(job.job_id)
        assert (memory.cost, memory.stages[0].read) == (Decimal("0.0012"), ("a.md",))
        assert memory.findings == (finding("a.md"),)

    @pytest.mark.parametrize("text", ["Zürich 中文", "a\x00b", "x" * 5_000, '"; DROP TABLE event; --'])
    def test_any_text_comes_back(self, job, text):
        self.opened().add(job.job_id, [event(1, "r", RiskAdded(text=text))])
        assert self.opened().memory(job.job_id).risks[0].text == text

    def test_jobs_are_listed_newest_first(self, job):
        later = self.opened().start(started_event("Later", "ORM", now=BEGIN.replace(year=2027), starter=None))
        listed = [memory.job_id for memory in self.opened().memories() if memory.job_id in (job.job_id, later.job_id)]
        assert listed == [later.job_id, job.job_id]

    def test_one_process_has_the_right_to_run_a_job(self, job):
        with self.opened().lock(job.job_id) as right:
            assert self.opened().is_running(job.job_id)
            with pytest.raises(StoreLocked, match="running already"):
                self.opened().lock(job.job_id)
            with pytest.raises(StoreLocked):
                self.opened().delete(job.job_id)
            right.add([event(1, "c", ConstraintAdded(text="Amounts in USD."))])
            self.opened().add(job.job_id, [event(2, "r", RiskAdded(text="Late."))])
        assert not self.opened().is_running(job.job_id)
        memory = self.opened().memory(job.job_id)
        assert ([note.text for note in memory.constraints], len(memory.risks)) == (["Amounts in USD."], 1)
        self.opened().lock(job.job_id).__exit__(None, None, None)

    def test_other_jobs_run_meanwhile(self, job):
        other = self.opened().start(started_event("Other", "ORM", now=BEGIN, starter=None))
        with self.opened().lock(job.job_id), self.opened().lock(other.job_id):
            assert self.opened().is_running(other.job_id)

    def test_a_deleted_job_is_gone(self, job):
        self.opened().delete(job.job_id)
        assert job.job_id not in [memory.job_id for memory in self.opened().memories()]
        with pytest.raises(JobNotFound):
            self.opened().memory(job.job_id)

    @pytest.mark.parametrize("job_id", [UNKNOWN, "", "..", "../data", 'x"; DROP SCHEMA public'])
    def test_an_unknown_job_is_not_found(self, job_id):
        store = self.opened()
        for work in (store.memory, store.lock, store.is_running, store.delete):
            with pytest.raises(JobNotFound):
                work(job_id)
        with pytest.raises(JobNotFound):
            store.add(job_id, [])
        with pytest.raises(JobNotFound), store.place(job_id):
            pass

    def test_the_documents_of_each_job_have_a_place_of_their_own(self, job):
        other = self.opened().start(started_event("Other", "ORM", now=BEGIN, starter=None))
        with self.opened().place(job.job_id) as place, self.opened().place(other.job_id) as another:
            assert place.source.id == job.job_id
            assert place.folder.is_dir() and place.folder != another.folder


class TestFolderJobs(StoreContract):
    @pytest.fixture(autouse=True)
    def _data(self, tmp_path: Path) -> None:
        self.data_dir = tmp_path

    def opened(self) -> JobStore:
        return FolderJobs(self.data_dir)

    def test_none_are_listed_in_a_new_data_folder(self, tmp_path):
        assert FolderJobs(tmp_path / "new").memories() == []


def connection_of(dsn: str, **fields: Any) -> Connection:
    parts = urlsplit(dsn)
    given = {"user": parts.username, "api_key": SecretStr(parts.password or ""), **fields}
    return Connection(base_url=f"postgresql://{parts.hostname}:{parts.port}{parts.path}", **given)


def jobs_in(connection: Connection) -> PostgresJobs:
    return PostgresJobs(JobDatabase("bank", lambda: connection))


@pytest.mark.slow
class TestPostgresJobs(StoreContract):
    @pytest.fixture(autouse=True)
    def _database(self, postgresql_server: Any) -> None:
        self.server, self.dsn = postgresql_server, postgresql_server.new_database()

    def opened(self) -> JobStore:
        return jobs_in(connection_of(self.dsn))

    def test_a_run_whose_session_the_server_ends_loses_its_right_and_writes_nothing_more(self, job):
        with self.opened().lock(job.job_id) as right:
            self.server.execute("SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'", self.dsn)
            with pytest.raises(JobsUnavailable):
                right.add([event(1, "r", RiskAdded(text="Written by the first."))])
            with self.opened().lock(job.job_id) as second:
                second.add([event(1, "r", RiskAdded(text="Written by the second."))])
                with pytest.raises(JobsUnavailable):
                    right.add([event(2, "r2", RiskAdded(text="Written by the first."))])
        assert [note.text for note in self.opened().memory(job.job_id).risks] == ["Written by the second."]

    def test_a_later_version_is_refused_and_an_earlier_one_brought_up_to_date(self, job):
        schema = "context_engine_" + job.job_id.replace("-", "_")
        self.server.execute(f"UPDATE {schema}.job SET version = 7", self.dsn)
        for work in (self.opened().memory, self.opened().lock):
            with pytest.raises(StoreVersionMismatch, match="update the program"):
                work(job.job_id)
        self.server.execute(f"DROP TABLE {schema}.event; UPDATE {schema}.job SET version = 0", self.dsn)
        self.server.execute(f"DROP TABLE {schema}.job", self.dsn)
        assert job.job_id not in [memory.job_id for memory in self.opened().memories()]

    @pytest.mark.parametrize(
        ("changed", "named"),
        [
            ({"api_key": SecretStr("wrong")}, "correct user and api_key"),
            ({"user": "nobody-known"}, "correct user and api_key"),
            ({"base_url": "postgresql://127.0.0.1:1/jobs"}, "cannot be reached"),
            ({"base_url": "{server}/missing"}, "base_url"),
        ],
    )
    def test_what_is_wrong_is_said_with_the_name_of_the_connection_and_without_the_password(self, changed, named):
        given = connection_of(self.dsn)
        if "base_url" in changed:
            changed = {"base_url": changed["base_url"].format(server=given.base_url.rpartition("/")[0])}
        store = jobs_in(given.model_copy(update=changed))
        for work in (store.memories, lambda: store.memory(UNKNOWN)):
            with pytest.raises(JobsUnavailable, match="connection 'bank'") as raised:
                work()
            assert named in str(raised.value)
            assert "wrong" not in str(raised.value)

    def test_a_user_who_may_not_start_jobs_is_told_what_to_grant(self):
        self.server.execute("CREATE USER reader PASSWORD 'reads-only'", self.dsn)
        reader = connection_of(self.dsn, user="reader", api_key=SecretStr("reads-only"))
        with pytest.raises(JobsUnavailable, match="GRANT CREATE ON DATABASE"):
            jobs_in(reader).start(started_event("Mine", "ORM", now=BEGIN, starter=None))


def setup_with(tmp_path: Path, base_url: str, name: str = "bank") -> Any:
    for folder in ("config", "manifests"):
        (tmp_path / folder).mkdir()
    (tmp_path / "config/rag-pipeline.json").write_text(f'{{"jobs": {{"jobs_connection": "{name}"}}}}')
    (tmp_path / "config/connections.yaml").write_text(f"bank: {{base_url: {base_url!r}, user: jobs}}\n")
    (tmp_path / "manifests/orm.yaml").write_text(
        "version: 1\ndomain: ORM\nsources: [{id: sops, type: bank_sop}]\n", "utf-8"
    )
    return load_setup(config_dir=tmp_path, env={"HOME": str(tmp_path)}, cwd=tmp_path)


def test_the_setting_chooses_the_store(tmp_path):
    setup = setup_with(tmp_path, "postgresql://db.bank.example/jobs")
    database = job_database(setup)
    assert database is not None and database.connect().user == "jobs"
    assert isinstance(open_store(setup, tmp_path), PostgresJobs)


@pytest.mark.parametrize(
    ("base_url", "name", "problem"),
    [
        ("https://dify.bank.example/v1", "bank", "jobs_connection: .*must have base_url postgresql://"),
        ("postgresql://db.bank.example/jobs", "banc", "unknown connection 'banc'. Did you mean 'bank'"),
    ],
)
def test_a_connection_that_cannot_keep_jobs_is_refused(tmp_path, base_url, name, problem):
    with pytest.raises(ConfigError, match=problem):
        open_store(setup_with(tmp_path, base_url, name), tmp_path)


def test_events_are_the_same_in_every_store(tmp_path):
    added: list[JobEvent] = [event(1, "r", RiskAdded(text="Late."))]
    store = FolderJobs(tmp_path)
    job_id = store.start(started_event("Review", "ORM", now=BEGIN, starter=None)).job_id
    store.add(job_id, added)
    assert store.memory(job_id).updated_at == added[0].at
