"""Where jobs are kept: what every store of jobs does, and the one that a configuration names."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from contextlib import AbstractContextManager
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Protocol

from context_engine.errors import InvalidRequest
from context_engine.jobs.documents import JobPlace
from context_engine.jobs.events import JobEvent, JobStarted
from context_engine.jobs.memory import JobMemory
from context_engine.wiring.jobs import job_database
from context_engine.wiring.setup import Setup


class JobRight(AbstractContextManager["JobRight"], Protocol):
    """The right to run a job, which one process has at a time; it ends with the block, or with the process."""

    def add(self, events: Iterable[JobEvent]) -> None:
        """Append events, as `JobStore.add`, while the right lasts.

        Raises:
            StoreError: they cannot be written, or the right was lost.
        """
        ...


class JobStore(Protocol):
    """The jobs of a deployment. Safe for threads and processes.

    Every method raises `StoreError` or `ConfigError` if the store cannot be used.
    """

    def start(self, event: JobEvent) -> JobMemory:
        """Keep a new job with its first event (see `started_event`), and return its memory."""
        ...

    def memories(self) -> list[JobMemory]:
        """Return the memories of all jobs, newest first."""
        ...

    def memory(self, job_id: str) -> JobMemory:
        """Return the memory of a job.

        Raises:
            JobNotFound: there is no such job.
        """
        ...

    def add(self, job_id: str, events: Iterable[JobEvent]) -> None:
        """Append events in one transaction; one that is known already is skipped.

        Raises:
            JobNotFound: there is no such job.
        """
        ...

    def lock(self, job_id: str) -> JobRight:
        """Return the right to run a job.

        Raises:
            JobNotFound: there is no such job.
            StoreLocked: it is running already.
        """
        ...

    def is_running(self, job_id: str) -> bool:
        """Return whether any process is running a job.

        Raises:
            JobNotFound: there is no such job.
        """
        ...

    def place(self, job_id: str) -> AbstractContextManager[JobPlace]:
        """Yield where the documents of a job lie.

        Raises:
            JobNotFound: there is no such job.
        """
        ...

    def delete(self, job_id: str) -> None:
        """Remove a job with its memory, its documents and their index.

        Raises:
            JobNotFound: there is no such job.
            StoreLocked: it is running.
        """
        ...


def open_store(setup: Setup, data_dir: Path) -> JobStore:
    """Return the store of a configuration: the database that `jobs_connection` names, else the data folder.

    Raises:
        ConfigError: the connection cannot be used.
        MissingExtra: the extra `postgres` is not installed.
    """
    database = job_database(setup)
    if database is None:
        from context_engine.jobs.folder_store import FolderJobs

        return FolderJobs(data_dir)
    from context_engine.jobs.postgres_store import PostgresJobs

    return PostgresJobs(database)


def started_event(
    title: str, domain: str, *, now: datetime, starter: str | None, budget_limit: Decimal | None = None
) -> JobEvent:
    """Return the event that starts a job with a new id; the arguments are fields of `JobStarted`."""
    now = now.astimezone(UTC)
    job_id = f"job-{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
    started = JobStarted(job_id=job_id, title=title, domain=domain, starter=starter, budget_limit=budget_limit)
    return JobEvent(id="started", at=now, fact=started)


def require_open(memory: JobMemory) -> None:
    """Refuse a job that is closed.

    Raises:
        InvalidRequest: it is closed.
    """
    if memory.closed_at is not None:
        raise InvalidRequest(f"the job {memory.job_id} is closed: start another")
