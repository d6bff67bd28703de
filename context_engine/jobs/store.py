"""Where jobs are kept: a folder for each, with its events in a SQLite file and its documents in a base of its own.

What belongs to a job lies in its folder alone, so that deleting the folder deletes the job.
"""

from __future__ import annotations

import re
import shutil
import time
import uuid
from collections.abc import Iterable
from contextlib import closing
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Final

from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.errors import InvalidRequest, JobNotFound, StoreError, StoreLocked
from context_engine.jobs.events import JobEvent, JobStarted, memory_of
from context_engine.jobs.memory import JobMemory
from context_engine.settings.data_dir import JOBS
from context_engine.settings.shared_database import SharedDatabase

EVENTS_FILE: Final = "events.sqlite"
_PATIENCE_S: Final = 0.2
_DELETED: Final = ".deleted-"
_ID: Final = re.compile(r"job-\d{8}-\d{6}-[0-9a-f]{6}")
_TABLE: Final = """
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, event TEXT NOT NULL
)
"""


class JobStore:
    """The jobs of a deployment. Safe for threads and processes.

    Args:
        data_dir: the deployment's data folder; the first job creates its folder below it.
    """

    def __init__(self, data_dir: Path) -> None:
        self._root = data_dir / JOBS

    def folder(self, job_id: str) -> Path:
        """Return the folder of a job.

        Raises:
            JobNotFound: there is none.
        """
        folder = self._root / job_id
        if not _ID.fullmatch(job_id) or not (folder / EVENTS_FILE).is_file():
            raise no_job(job_id)
        return folder

    def ids(self) -> list[str]:
        """Return the ids of all jobs, oldest first."""
        if not self._root.is_dir():
            return []
        folders = self._root.iterdir()
        return sorted(
            folder.name for folder in folders if _ID.fullmatch(folder.name) and (folder / EVENTS_FILE).is_file()
        )

    def create(
        self, title: str, domain: str, *, now: datetime, starter: str | None, budget_limit: Decimal | None = None
    ) -> JobMemory:
        """Start a job and return its memory; the arguments are fields of `JobStarted`.

        Raises:
            ConfigError: the data folder cannot be written to.
        """
        now = now.astimezone(UTC)
        job_id = f"job-{now:%Y%m%d-%H%M%S}-{uuid.uuid4().hex[:6]}"
        started = JobStarted(job_id=job_id, title=title, domain=domain, starter=starter, budget_limit=budget_limit)
        event = JobEvent(id="started", at=now, fact=started)
        self._append(self._root / job_id, [event])
        return memory_of([event])

    def add(self, job_id: str, events: Iterable[JobEvent]) -> None:
        """Append events in one transaction; one that is known already is skipped.

        Raises:
            JobNotFound: there is no such job.
            ConfigError: its file cannot be written.
        """
        self._append(self.folder(job_id), events)

    def memory(self, job_id: str) -> JobMemory:
        """Return the memory of a job.

        Raises:
            JobNotFound: there is no such job.
            ConfigError: its file cannot be read.
        """
        folder = self.folder(job_id)
        database = _database(folder)
        with database.problems_named():
            reader = database.reader()
            if reader is None:
                raise JobNotFound(f"the job {job_id} is just being started: ask again")
            with closing(reader):
                rows = reader.execute("SELECT event FROM event ORDER BY seq").fetchall()
        return memory_of(JobEvent.model_validate_json(row[0]) for row in rows)

    def lock(self, job_id: str) -> WriterLock:
        """Return the right to run a job, until it is released.

        Raises:
            JobNotFound: there is no such job.
            StoreLocked: it is running already.
        """
        folder, until = self.folder(job_id), time.monotonic() + _PATIENCE_S
        while True:
            try:
                return WriterLock(folder)
            except StoreLocked as error:
                if time.monotonic() > until:
                    raise StoreLocked(f"the job {job_id} is running already: wait until it ends") from error
            time.sleep(_PATIENCE_S / 10)  # it may only be looked at

    def is_running(self, job_id: str) -> bool:
        """Return whether any process is running a job.

        Raises:
            JobNotFound: there is no such job.
        """
        try:
            WriterLock(self.folder(job_id)).release()
        except StoreLocked:
            return True
        return False

    def delete(self, job_id: str) -> None:
        """Remove a job with its memory, its documents and their index.

        Raises:
            JobNotFound: there is no such job.
            StoreLocked: it is running.
            StoreError: its files cannot be removed.
        """
        with self.lock(job_id):
            gone = self._root / f"{_DELETED}{job_id}"
            try:
                self.folder(job_id).rename(gone)  # at once, so that nobody finds half a job
            except OSError as error:
                raise StoreError(
                    f"{self._root} cannot be written to ({error.strerror}): let this user write"
                ) from error
        self._remove_deleted()

    def _remove_deleted(self) -> None:
        """Remove the folders of deleted jobs, also of a deletion that was interrupted."""
        for folder in self._root.glob(f"{_DELETED}*"):
            try:
                shutil.rmtree(folder)
            except OSError as error:
                raise StoreError(
                    f"{folder} cannot be removed ({error.strerror or error}): remove this folder, it holds what was "
                    "deleted"
                ) from error

    def _append(self, folder: Path, events: Iterable[JobEvent]) -> None:
        with _database(folder).written() as connection:
            rows = [(event.id, event.model_dump_json()) for event in events]
            connection.executemany("INSERT OR IGNORE INTO event (id, event) VALUES (?, ?)", rows)


def _database(folder: Path) -> SharedDatabase:
    return SharedDatabase(folder / EVENTS_FILE, (_TABLE,), version=1, holds="the job")


def no_job(job_id: str) -> JobNotFound:
    """Return the error for a job that does not exist, or is not the caller's."""
    return JobNotFound(f"there is no job {job_id[:60]!r} of yours: 'context-engine job list' shows them")


def require_open(memory: JobMemory) -> None:
    """Refuse a job that is closed.

    Raises:
        InvalidRequest: it is closed.
    """
    if memory.closed_at is not None:
        raise InvalidRequest(f"the job {memory.job_id} is closed: start another")
