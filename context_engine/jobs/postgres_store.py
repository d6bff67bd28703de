"""Jobs in PostgreSQL: a schema for each, with its events and the tables of its documents; all replicas see them.

What belongs to a job stands in its schema alone, so that dropping the schema deletes the job. The right to run a job is
an advisory lock of one session, and what a run finds is written in that session: a run that loses its connection loses
the right, and can write nothing more.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import Any, Final, LiteralString, Self

import psycopg
from psycopg import errors, sql

from context_engine.adapters.sources.postgres.connection import Session, failures, one_row, parameters
from context_engine.errors import JobNotFound, JobsUnavailable, SourceError, StoreLocked, StoreVersionMismatch
from context_engine.jobs.documents import JobPlace, job_source
from context_engine.jobs.events import JOB_ID, JobEvent, JobStarted, memory_of, no_job
from context_engine.jobs.memory import JobMemory
from context_engine.wiring.jobs import JobDatabase

_PREFIX: Final = "context_engine_"
_MIGRATIONS: Final[tuple[LiteralString, ...]] = (
    """
    CREATE TABLE {schema}.job (version integer NOT NULL);
    INSERT INTO {schema}.job VALUES (0);
    CREATE TABLE {schema}.event (
        seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, id text NOT NULL UNIQUE, event text NOT NULL
    )
    """,
)
"""The statements that bring a job's schema to each version, from the first on."""
_LIMITS: Final = (
    "SET lock_timeout = '10s'; SET statement_timeout = '60s'; SET synchronous_commit = on;"
    " SET client_min_messages = error"
)
_KEPT_OPEN: Final = (
    "SELECT set_config(name, wanted, false) FROM pg_settings JOIN (VALUES ('tcp_keepalives_idle', '10'),"
    " ('tcp_keepalives_interval', '5'), ('tcp_keepalives_count', '3'), ('idle_session_timeout', '0'))"
    " AS run (parameter, wanted) ON parameter = name"
)
"""The server ends a run's session, and with it the right, within half a minute after its machine is gone, and no sooner
because the session is idle while a model writes."""

_PATIENT: Final = "SET LOCAL lock_timeout = '1s'"
"""The server may need a moment to notice that the process of an earlier run is gone."""


class PostgresJobs:
    """A `JobStore` in a PostgreSQL database; each use opens a connection of its own.

    Args:
        database: its user may create schemas.
    """

    def __init__(self, database: JobDatabase) -> None:
        self._database = database

    def check(self) -> None:
        """Try whether jobs can be kept.

        Raises:
            JobsUnavailable: the database cannot be reached, or its user may not create schemas.
        """
        with self._session() as session, _problems(self._database):
            (may_start,) = one_row(session, "SELECT has_database_privilege(current_database(), 'CREATE')")
            if not may_start:
                raise errors.InsufficientPrivilege

    def start(self, event: JobEvent) -> JobMemory:
        """Keep a new job with its first event, and return its memory."""
        assert isinstance(event.fact, JobStarted)
        job_id = event.fact.job_id
        with self._session() as session, _problems(self._database, job_id), session.transaction():
            session.execute(_in_schema(job_id, "CREATE SCHEMA {schema}"))
            _migrate(session, job_id, 0)
            _append(session, job_id, [event])
        return memory_of([event])

    def memories(self) -> list[JobMemory]:
        """Return the memories of all jobs, newest first."""
        memories = []
        with self._session() as session:
            with _problems(self._database):
                schemas = session.execute(
                    "SELECT nspname FROM pg_namespace WHERE starts_with(nspname, %s) ORDER BY nspname DESC", (_PREFIX,)
                ).fetchall()
            for (schema,) in schemas:
                with suppress(JobNotFound):  # not the schema of a job, or deleted meanwhile
                    memories.append(self._memory(session, _job_of(schema)))
        return memories

    def memory(self, job_id: str) -> JobMemory:
        """Return the memory of a job.

        Raises:
            JobNotFound: there is no such job.
            StoreVersionMismatch: a later version of this package keeps it.
        """
        with self._session() as session:
            return self._memory(session, job_id)

    def add(self, job_id: str, events: Iterable[JobEvent]) -> None:
        """Append events in one transaction; one that is known already is skipped.

        Raises:
            JobNotFound: there is no such job.
            StoreVersionMismatch: a later version of this package keeps it.
        """
        with self._session() as session, _problems(self._database, job_id), session.transaction():
            _migrate(session, job_id, _version(session, job_id))
            _append(session, job_id, events)

    def lock(self, job_id: str) -> PostgresRight:
        """Return the right to run a job.

        Raises:
            JobNotFound: there is no such job.
            StoreLocked: it is running already.
            StoreVersionMismatch: a later version of this package keeps it.
        """
        session = self._opened()
        try:
            with _problems(self._database, job_id), session.transaction():
                session.execute(_KEPT_OPEN)
                session.execute(_PATIENT)
                try:
                    session.execute("SELECT pg_advisory_lock(%s)", (_lock_number(job_id),))
                except errors.LockNotAvailable as error:
                    raise StoreLocked(f"the job {job_id} is running already: wait until it ends") from error
                _migrate(session, job_id, _version(session, job_id))
        except BaseException:
            session.close()
            raise
        return PostgresRight(self._database, session, job_id)

    def is_running(self, job_id: str) -> bool:
        """Return whether any process on any machine is running a job.

        Raises:
            JobNotFound: there is no such job.
        """
        with self._session() as session, _problems(self._database, job_id):
            _version(session, job_id)
            (running,) = one_row(
                session,
                "SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database ON pg_database.oid = database"
                " WHERE locktype = 'advisory' AND datname = current_database() AND objsubid = 1"
                " AND (classid::bigint << 32 | objid::bigint) = %s AND granted)",
                (_lock_number(job_id),),
            )
            return bool(running)

    @contextmanager
    def place(self, job_id: str) -> Iterator[JobPlace]:
        """Yield where the documents of a job lie: in its schema; the files of its models last no longer than the block.

        Raises:
            JobNotFound: there is no such job.
        """
        with self._session() as session, _problems(self._database, job_id):
            _version(session, job_id)
        source = job_source(
            job_id, "postgres", connection=self._database.connection, settings={"schema_name": _schema_of(job_id)}
        )
        with TemporaryDirectory(prefix="context-engine-") as folder:
            yield JobPlace(source, Path(folder))

    def delete(self, job_id: str) -> None:
        """Remove a job with its memory, its documents and their index.

        Raises:
            JobNotFound: there is no such job.
            StoreLocked: it is running.
        """
        with self.lock(job_id) as right:
            right.drop()

    def _memory(self, session: Session, job_id: str) -> JobMemory:
        with _problems(self._database, job_id):
            rows = session.execute(
                _in_schema(job_id, "SELECT version, event FROM {schema}.job, {schema}.event ORDER BY seq")
            ).fetchall()
        if rows:
            _check_version(rows[0][0])
        return memory_of(JobEvent.model_validate_json(event) for _, event in rows)

    @contextmanager
    def _session(self) -> Iterator[Session]:
        session = self._opened()
        try:
            yield session
        finally:
            session.close()

    def _opened(self) -> Session:
        with _problems(self._database):
            values = parameters(self._database.connect(), write=True, read_from="primary")
            session: Session = psycopg.connect(**values, autocommit=True, prepare_threshold=None)  # type: ignore[arg-type]
            session.execute(_LIMITS)
            return session


class PostgresRight:
    """The right to run a job, which ends with the session that has it."""

    def __init__(self, database: JobDatabase, session: Session, job_id: str) -> None:
        self._database, self._session, self._job_id = database, session, job_id

    def add(self, events: Iterable[JobEvent]) -> None:
        """Append events.

        Raises:
            JobsUnavailable: the session was lost, and with it the right.
        """
        with _problems(self._database, self._job_id), self._session.transaction():
            _append(self._session, self._job_id, events)

    def drop(self) -> None:
        """Remove the job."""
        with _problems(self._database, self._job_id):
            self._session.execute(_in_schema(self._job_id, "DROP SCHEMA {schema} CASCADE"))

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session.close()


@contextmanager
def _problems(database: JobDatabase, job_id: str = "") -> Iterator[None]:
    """Turn errors of the database into those of this package.

    Raises:
        JobNotFound: the schema of the job, or a table in it, is not there.
        JobsUnavailable: the database cannot be used; the message names the connection.
    """
    try:
        with failures():
            try:
                yield
            except (errors.InvalidSchemaName, errors.UndefinedTable):
                raise no_job(job_id) from None
    except SourceError as error:
        raise JobsUnavailable(
            f"the jobs in connection {database.connection!r} cannot be used: {_reason(error)}"
        ) from error


def _reason(error: SourceError) -> str:
    if isinstance(error.__cause__, errors.InsufficientPrivilege):
        return "its user lacks a right: GRANT CREATE ON DATABASE lets it start jobs"
    return error.problem


def _schema_of(job_id: str) -> str:
    return _PREFIX + job_id.replace("-", "_")


def _job_of(schema: str) -> str:
    return schema.removeprefix(_PREFIX).replace("_", "-")


def _in_schema(job_id: str, statement: LiteralString) -> sql.Composed:
    """Return a statement on the schema of a job.

    Raises:
        JobNotFound: this is not the id of a job.
    """
    if not JOB_ID.fullmatch(job_id):
        raise no_job(job_id)
    return sql.SQL(statement).format(schema=sql.Identifier(_schema_of(job_id)))


def _lock_number(job_id: str) -> int:
    """Return the number of the advisory lock of a job; positive, so that pg_locks shows it in two unsigned halves."""
    return int.from_bytes(hashlib.sha256(f"{_PREFIX}{job_id}".encode()).digest()[:8], "big") >> 1


def _version(session: Session, job_id: str) -> int:
    return int(one_row(session, _in_schema(job_id, "SELECT version FROM {schema}.job"))[0])


def _check_version(version: int) -> None:
    if version > len(_MIGRATIONS):
        raise StoreVersionMismatch(
            f"the job is of version {version}, this program knows version {len(_MIGRATIONS)}: update the program"
        )


def _migrate(session: Session, job_id: str, version: int) -> None:
    """Bring the schema of a job to this version, in the caller's transaction.

    Raises:
        StoreVersionMismatch: a later version of this package keeps it.
    """
    _check_version(version)
    for statements in _MIGRATIONS[version:]:
        session.execute(_in_schema(job_id, statements))
    if version < len(_MIGRATIONS):
        session.execute(_in_schema(job_id, "UPDATE {schema}.job SET version = %s"), (len(_MIGRATIONS),))


def _append(session: Session, job_id: str, events: Iterable[JobEvent]) -> None:
    rows: list[tuple[Any, ...]] = [(event.id, event.model_dump_json()) for event in events]
    insert = _in_schema(job_id, "INSERT INTO {schema}.event (id, event) VALUES (%s, %s) ON CONFLICT (id) DO NOTHING")
    with session.cursor() as cursor:
        cursor.executemany(insert, rows)
