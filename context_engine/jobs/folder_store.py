"""Jobs in the data folder: a folder for each, with its events in a SQLite file and its documents in a base of its own.

What belongs to a job lies in its folder alone, so that deleting the folder deletes the job.
"""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from context_engine.adapters.sources.writer_lock import WriterLock
from context_engine.errors import JobNotFound, StoreError, StoreLocked
from context_engine.jobs.documents import JobPlace, job_source
from context_engine.jobs.events import JOB_ID, JobEvent, JobStarted, memory_of, no_job
from context_engine.jobs.memory import JobMemory
from context_engine.settings.data_dir import JOBS
from context_engine.settings.shared_database import SharedDatabase
from context_engine.wiring.embedded_base import EMBEDDED

EVENTS_FILE: Final = "events.sqlite"
_PATIENCE_S: Final = 0.2
_DELETED: Final = ".deleted-"
_TABLE: Final = """
CREATE TABLE event (
    seq INTEGER PRIMARY KEY AUTOINCREMENT, id TEXT NOT NULL UNIQUE, event TEXT NOT NULL
)
"""


class FolderJobs:
    """A `JobStore` on the disk of one machine.

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
        if not JOB_ID.fullmatch(job_id) or not (folder / EVENTS_FILE).is_file():
            raise no_job(job_id)
        return folder

    def start(self, event: JobEvent) -> JobMemory:
        """Keep a new job with its first event, and return its memory."""
        assert isinstance(event.fact, JobStarted)
        _append(self._root / event.fact.job_id, [event])
        return memory_of([event])

    def memories(self) -> list[JobMemory]:
        """Return the memories of all jobs, newest first."""
        names = (folder.name for folder in self._root.iterdir()) if self._root.is_dir() else ()
        memories = []
        for job_id in sorted(names, reverse=True):
            with suppress(JobNotFound):
                memories.append(self.memory(job_id))
        return memories

    def memory(self, job_id: str) -> JobMemory:
        """Return the memory of a job.

        Raises:
            JobNotFound: there is no such job.
        """
        database = _database(self.folder(job_id))
        with database.problems_named():
            reader = database.reader()
            if reader is None:
                raise JobNotFound(f"the job {job_id} is just being started: ask again")
            with closing(reader):
                rows = reader.execute("SELECT event FROM event ORDER BY seq").fetchall()
        return memory_of(JobEvent.model_validate_json(row[0]) for row in rows)

    def add(self, job_id: str, events: Iterable[JobEvent]) -> None:
        """Append events in one transaction; one that is known already is skipped.

        Raises:
            JobNotFound: there is no such job.
        """
        _append(self.folder(job_id), events)

    def lock(self, job_id: str) -> FolderRight:
        """Return the right to run a job.

        Raises:
            JobNotFound: there is no such job.
            StoreLocked: it is running already.
        """
        folder, until = self.folder(job_id), time.monotonic() + _PATIENCE_S
        while True:
            try:
                return FolderRight(folder)
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

    @contextmanager
    def place(self, job_id: str) -> Iterator[JobPlace]:
        """Yield where the documents of a job lie: in its folder.

        Raises:
            JobNotFound: there is no such job.
        """
        folder = self.folder(job_id)
        yield JobPlace(job_source(job_id, EMBEDDED), folder)

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


class FolderRight:
    """The right to run the job in a folder; the system takes it back when the process ends."""

    def __init__(self, folder: Path) -> None:
        self._folder, self._lock = folder, WriterLock(folder)

    def add(self, events: Iterable[JobEvent]) -> None:
        """Append events."""
        _append(self._folder, events)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._lock.release()


def _append(folder: Path, events: Iterable[JobEvent]) -> None:
    with _database(folder).written() as connection:
        rows = [(event.id, event.model_dump_json()) for event in events]
        connection.executemany("INSERT OR IGNORE INTO event (id, event) VALUES (?, ?)", rows)


def _database(folder: Path) -> SharedDatabase:
    return SharedDatabase(folder / EVENTS_FILE, (_TABLE,), version=1, holds="the job")
