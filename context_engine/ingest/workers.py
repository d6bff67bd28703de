"""Files loaded and cut in other processes, and given back in the order of the files.

Loading and cutting are work for the processor, so threads would not help. The processes are started by command, not
forked: a fork would copy the locks that other threads hold at that moment. Each takes every n-th file; what it has
cut waits in a short queue and in its pipe, so memory stays bounded however large the folder is.
"""

from __future__ import annotations

import json
import logging
import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any, BinaryIO, Final

from context_engine.ingest.loaded import Skipped
from context_engine.ingest.reading import CutDocument, FileJob, IngestOptions, Known, read_file

__all__ = ["Item", "read_all", "serve"]

logger = logging.getLogger(__name__)

Item = CutDocument | tuple[str, Skipped]

_PER_PROCESS: Final = 2 * 1024 * 1024
_MOST_PROCESSES: Final = 4
_AHEAD: Final = 8
_MOST_ITEMS: Final = 64
_MOST_CHARS: Final = 256 * 1024
_LOST: Final = "could not be read: the process that read it ended, perhaps for want of memory"
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from context_engine.ingest.workers import serve; serve()"
)


def read_all(jobs: Sequence[FileJob], options: IngestOptions, known: Known) -> Iterator[tuple[FileJob, Iterator[Item]]]:
    """Yield each file with what it gave; the items of a file are to be read before the next file is asked for.

    Args:
        jobs: the files.
        options: how they are cut, and by how many processes.
        known: what the sources hold, read once.
    """
    width = min(options.jobs or _worthwhile(jobs), len(jobs))
    task = _pickled(options, known) if width > 1 else None
    if task is None:
        for job in jobs:
            yield job, read_file(job, options, known)
        return
    workers = [_Worker(task, jobs[place::width]) for place in range(width)]
    try:
        for number, job in enumerate(jobs):
            yield job, workers[number % width].items(job)
    finally:
        for worker in workers:
            worker.stop()


def _worthwhile(jobs: Sequence[FileJob]) -> int:
    """Return how many processes pay: starting one takes as long as cutting a megabyte or two."""
    size = 0
    for job in jobs:
        try:
            size += job.file.stat().st_size if job.takers else 0
        except OSError:
            continue
    return max(min(size // _PER_PROCESS, os.cpu_count() or 1, _MOST_PROCESSES), 1)


def _pickled(options: IngestOptions, known: Known) -> bytes | None:
    try:
        return pickle.dumps((options, {source: dict(held) for source, held in known.items()}))
    except (pickle.PicklingError, TypeError, AttributeError) as error:
        logger.info("files are read in one process: the token counter cannot be handed to others (%s)", error)
        return None


class _Died(Exception):
    """A process ended before it had given all of a file."""


class _Worker:
    """A process with its share of the files.

    When it dies, the file that is wanted is read once more by a process of its own, for it may be a later one that was
    not survived; a process that dies of its only file ends that file, and a new one goes on behind it.
    """

    def __init__(self, task: bytes, jobs: Sequence[FileJob]) -> None:
        self._task, self._jobs = task, list(jobs)
        self._process = self._started(self._jobs)

    def items(self, job: FileJob) -> Iterator[Item]:
        """Yield what the next file of its share gave."""
        given = 0
        try:
            for item in _received(self._process):
                yield item
                given += 1
            self._jobs = self._jobs[1:]
        except _Died:
            self.stop()
            yield from self._alone(job, given)
            self._jobs = self._jobs[1:]
            self._process = self._started(self._jobs)

    def stop(self) -> None:
        """End the process."""
        _end(self._process)

    def _alone(self, job: FileJob, given: int) -> Iterator[Item]:
        """Yield what a file gave, without the items that were given before."""
        process = self._started([job])
        try:
            yield from islice(_received(process), given, None)
        except _Died:
            yield from ((taker.source_id, Skipped(taker.path, _LOST)) for taker in job.takers)
        finally:
            _end(process)

    def _started(self, jobs: Sequence[FileJob]) -> subprocess.Popen[bytes]:
        """Start a process of our own interpreter; Ctrl-C in the terminal reaches us, and we end it."""
        command = [sys.executable, "-c", _START, json.dumps(sys.path)]
        process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, start_new_session=os.name == "posix"
        )
        assert process.stdin is not None
        try:
            process.stdin.write(pickle.dumps((self._task, list(jobs))))
            process.stdin.close()
        except OSError:
            logger.debug("a process ended before it was told what to read")
        return process


def _received(process: subprocess.Popen[bytes]) -> Iterator[Item]:
    """Yield the items of one file."""
    assert process.stdout is not None
    while True:
        try:
            message = pickle.load(process.stdout)
        except (EOFError, pickle.UnpicklingError):
            raise _Died from None
        if message is None:
            return
        if isinstance(message, Exception):
            raise message
        yield from message


def _end(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.wait()
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            pipe.close()


def serve() -> None:
    """Read the files that standard input names and write what they gave to standard output; what a worker runs."""
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # whatever a library prints must not stand among the messages
    task, jobs = pickle.load(sys.stdin.buffer)
    options, known = pickle.loads(task)
    messages: queue.Queue[Any] = queue.Queue(_AHEAD)
    sender = threading.Thread(target=_send, args=(messages, out), daemon=True)
    sender.start()
    try:
        for job in jobs:
            for group in _grouped(read_file(job, options, known)):
                messages.put(group)
            messages.put(None)
    except Exception as error:  # noqa: BLE001  it is raised again where the run is
        messages.put(error)
    messages.put(_END)
    sender.join()


_END: Final = object()


def _grouped(items: Iterator[Item]) -> Iterator[list[Item]]:
    """Yield items in groups: a file of records gives thousands of small ones."""
    group: list[Item] = []
    size = 0
    for item in items:
        group.append(item)
        size += len(item.document.loaded.text) if isinstance(item, CutDocument) else 0
        if len(group) == _MOST_ITEMS or size > _MOST_CHARS:
            yield group
            group, size = [], 0
    if group:
        yield group


def _send(messages: queue.Queue[Any], out: BinaryIO) -> None:
    try:
        while (message := messages.get()) is not _END:
            pickle.dump(message, out, protocol=pickle.HIGHEST_PROTOCOL)
            out.flush()
    except OSError:
        os._exit(1)  # nobody reads any more
