"""Load and cut files in worker processes, each within its limits, and return the results in the order of the files.

Loading and cutting are bound by the processor, so threads would not help, and only a process can be ended from outside
if a file takes too much time or memory. Each process takes every n-th file. Its results wait in a short queue and in
its pipe, so memory is bounded for folders of any size. While the queue is full, the time of a file does not run.

A file that exceeds its time or memory, or that its process does not survive, gives one error; a new process goes on
with the next file. Documents that a file of records gave before are kept.

`concurrent.futures.ProcessPoolExecutor` was tried on the same hostile files: one that ended its process cost all ten
files of the run (BrokenProcessPool), also with `max_tasks_per_child=1`. One that hung could not be cancelled, its
earlier results were lost, and the program that it had started lived on.
"""

from __future__ import annotations

import logging
import os
import pickle
import threading
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final, NamedTuple

from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import DocumentRule, IngestSettings
from context_engine.ingest.files import Assignment, shown_name
from context_engine.ingest.loaded_document import LoadedDocument, Skipped
from context_engine.ingest.loaders import CONVERTED
from context_engine.ingest.process import DONE, ERROR, FULL, READY, Process, borrowed, give_back
from context_engine.ingest.reading import FileJob, IngestOptions, Item, Known, cut_file, lost, too_long, too_much

__all__ = ["Item", "cut_loaded", "read_all", "read_one"]
logger = logging.getLogger(__name__)
_PER_PROCESS: Final = 2 * 1024 * 1024
_MOST_PROCESSES: Final = 4
_AHEAD: Final = 8
_TICK_S: Final = 0.2
_MEGABYTE: Final = 1 << 20
_LIBREOFFICE_MB: Final = 512  # what it takes for an empty document
_SHARE_OF_TIME: Final = 128 << 10
Loss = Callable[[int, IngestSettings], str]
"""Returns why reading of a file stopped, given how many documents it gave before."""


def read_all(
    jobs: Sequence[FileJob], options: IngestOptions, known: Known
) -> Generator[tuple[FileJob, Iterator[Item]]]:
    """Yield each file with its items; consume the items of a file before requesting the next file.

    If the token counter cannot be pickled, files are loaded in the workers but cut in this process.
    """
    read = [job for job in jobs if job.takers]
    width = min(options.jobs or _worthwhile(read), len(read))
    cutting = _can_be_pickled(options.counter)
    task = _Task(options if cutting else replace(options, counter=ApproxTokenCounter()), known, cutting)
    shares = [_Share(read[place::width], task) for place in range(width)]
    ended = threading.Event()
    threading.Thread(target=_watch, args=(shares, ended), daemon=True).start()
    number = 0
    try:
        for job in jobs:
            if not job.takers:
                yield job, iter(())
                continue
            items = shares[number % width].items(job)
            yield job, items if cutting else cut_file(items, job, options, known)
            number += 1
    finally:
        ended.set()
        for share in shares:
            share.stop()


def read_one(
    file: Path, rule: DocumentRule | None, options: IngestOptions, *, name: str | None = None
) -> Generator[Item]:
    """Load and cut one file by a rule, within its limits.

    Args:
        rule: the manifest rule; None: the document decides how it is cut.
        name: the path for its documents, as `shown_name` writes it; None: the file's name.
    """
    name = shown_name(file.name) if name is None else name
    yield from _read(FileJob(file, file.absolute().parent, (name,), (Assignment("", rule, name),)), options)


def cut_loaded(
    documents: Sequence[LoadedDocument], rule: DocumentRule | None, options: IngestOptions
) -> Generator[Item]:
    """Cut already loaded documents of one file (at least one), within the limits; `rule` None: by document."""
    name = documents[0].path
    yield from _read(FileJob(Path(name), Path(), (name,), (Assignment("", rule, name),), tuple(documents)), options)


def _read(job: FileJob, options: IngestOptions) -> Generator[Item]:
    with closing(read_all([job], options, {})) as files:
        for _, items in files:
            yield from items


def _worthwhile(jobs: Sequence[FileJob]) -> int:
    """Return how many processes are worth starting: one start takes as long as cutting a megabyte or two."""
    size = sum(_bytes(job) for job in jobs)
    return max(min(size // _PER_PROCESS, os.cpu_count() or 1, _MOST_PROCESSES), 1)


def _bytes(job: FileJob) -> int:
    try:
        return job.file.stat().st_size
    except OSError:
        return 0


def _can_be_pickled(counter: Any) -> bool:
    try:
        pickle.dumps(counter)
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        logger.info("chunks are cut in this process: the token counter cannot be sent to other processes (%s)", error)
        return False
    return True


def _watch(shares: Sequence[_Share], ended: threading.Event) -> None:
    while not ended.wait(_TICK_S):
        for share in shares:
            share.check(time.monotonic())


class _Task(NamedTuple):
    """What every process receives besides its files; `cutting` is whether it also cuts what it loads."""

    options: IngestOptions
    known: Known
    cutting: bool

    def of(self, jobs: Sequence[FileJob]) -> bytes:
        known = {source: dict(hashes) for source, hashes in self.known.items()} if self.cutting else {}
        return pickle.dumps((self.options, known, list(jobs), self.cutting))


class _ShareMessage(NamedTuple):
    """Pickled items of a file (`last`: its last ones), a restart of the file, a loss, or an exception."""

    items: bytes = b""
    last: bool = False
    again: bool = False
    loss: Loss | None = None
    flaw: BaseException | None = None


class _Verdict(NamedTuple):
    """Why a process was ended, and at which file of its share."""

    number: int
    loss: Loss


class _Share:
    """Every n-th file and the process that reads them; a thread receives its messages.

    A file that its process did not survive, or that ran out of memory, is read once more by a fresh process unless it
    was the first file of a fresh one: files before it may have used up the memory.
    """

    def __init__(self, jobs: Sequence[FileJob], task: _Task) -> None:
        self._left, self._task, self._settings = deque(jobs), task, task.options.settings
        self._messages: SimpleQueue[_ShareMessage] = SimpleQueue()
        self._room = threading.Semaphore(_AHEAD)
        self._lock = threading.Lock()
        self._stopped = False
        self._process: Process | None = None
        self._verdict: _Verdict | None = None
        self._number = 0  # files that are finished
        self._since: float | None = None  # when waiting for the process began; None while it waits for us
        self._spent = 0.0  # seconds that the current file has taken so far
        self._allowed = 0.0
        self._most_memory = 0  # bytes
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def items(self, job: FileJob) -> Iterator[Any]:
        """Yield the items of the next file of the share."""
        given_out = skip = 0
        while True:
            message = self._messages.get()
            self._room.release()
            if message.flaw:
                raise message.flaw
            if message.again:
                skip = given_out
            if message.loss:
                reason = message.loss(given_out, self._settings)
                for taker in job.takers:
                    yield taker.source_id if self._task.cutting else taker, Skipped(taker.path, reason)
                return
            items = pickle.loads(message.items) if message.items else []
            fresh = items[skip:]
            skip -= len(items) - len(fresh)
            yield from fresh
            given_out += len(fresh)
            if message.last:
                return

    def check(self, now: float) -> None:
        """End the process if its file exceeds its time or memory."""
        since, number, process = self._since, self._number, self._process
        if since is None or process is None:
            return
        waited = now - since
        if waited > self._settings.file_timeout_s or self._spent + waited > self._allowed:
            self._verdict = _Verdict(number, too_long)
        elif process.grown() > self._most_memory:
            self._verdict = _Verdict(number, too_much)
        else:
            return
        process.kill()

    def stop(self) -> None:
        """End the process, unless all of its files are read."""
        with self._lock:
            if self._left:
                self._stopped = True
                if self._process:
                    self._process.end()
        self._room.release()
        self._thread.join()

    def _run(self) -> None:
        try:
            again = False
            while self._left and not self._stopped:
                loss, fresh = self._one_process(new=again)
                again = False
                if loss and not fresh and loss is not too_long:
                    self._put(_ShareMessage(again=True))
                    again = True
                elif loss:
                    self._next()
                    self._put(_ShareMessage(loss=loss))
        except BaseException as flaw:  # noqa: BLE001  raised where the items are read
            self._put(_ShareMessage(flaw=flaw))

    def _one_process(self, *, new: bool) -> tuple[Loss | None, bool]:
        """Read files with one process; return why it ended (None: all are read), and whether at its first file."""
        with self._lock:
            if self._stopped:
                return None, True
            process = self._process = Process() if new else borrowed()
        first = self._number
        try:
            process.ask(self._task.of(self._left))
            loss = self._read(process)
            if not loss:
                with self._lock:
                    if not self._stopped:
                        self._process = None
                        give_back(process)
            return loss, not process.used and self._number == first
        finally:
            with self._lock:
                if self._process is process:
                    self._process = None
                    process.end()

    def _read(self, process: Process) -> Loss | None:
        """Receive the messages of a process; return why it ended early, None if it read all of its files."""
        self._since = self._verdict = None
        self._spent, begun = 0.0, False
        while self._left:
            self._since = time.monotonic() if begun else None  # starting up counts for no file
            answer = process.answer()
            self._spent += time.monotonic() - self._since if self._since else 0.0
            self._since = None
            if answer is None:
                verdict = self._verdict
                return verdict.loss if verdict and verdict.number == self._number else lost
            kind, body = answer
            if not begun:
                begun = True
                self._set_limits()
            if kind == FULL:
                return too_much
            if kind == ERROR:
                raise pickle.loads(body)
            if kind == DONE:
                self._next()
            if kind != READY:
                self._put(_ShareMessage(items=body, last=kind == DONE))
        return None

    def _next(self) -> None:
        self._left.popleft()
        self._number += 1
        self._spent = 0.0
        self._set_limits()

    def _set_limits(self) -> None:
        """Set what the next file may take."""
        if self._left:
            self._allowed = _allowed(self._left[0], self._settings)
            self._most_memory = _most_memory(self._left[0], self._settings)

    def _put(self, message: _ShareMessage) -> None:
        """Queue a message; wait while the queue is full, unless the share is stopped."""
        if not self._stopped:
            self._room.acquire()
            self._messages.put(message)


def _most_memory(job: FileJob, settings: IngestSettings) -> int:
    """Return the most bytes of memory for a file, besides what LibreOffice itself takes if it converts the file."""
    own = _LIBREOFFICE_MB if job.file.suffix.lower() in CONVERTED else 0
    return (settings.file_memory_mb + own) * _MEGABYTE


def _allowed(job: FileJob, settings: IngestSettings) -> float:
    """Return the total seconds for a file that keeps giving records: its time limit for every 128 KiB of its size."""
    return settings.file_timeout_s * len(job.takers) * max(_bytes(job) / _SHARE_OF_TIME, 1.0)
