"""A worker process that reads files: both ends of the pipe, and the few processes kept for reuse.

It is started by command, not forked: a fork would copy the locks that other threads hold at that moment. It leads its
own process group, so that programs that a loader starts end with it. It has its own folder for temporary files, which
is deleted however the process ends.

Memory is limited if the system reports the size of a process and can bound its address space (Linux): a file may take
`file_memory_mb` beyond the memory of the process before its first file. Only the soft limit is set, so that a program
started by a loader may set another. On other systems only the limits on time and output apply.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import pickle
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, BinaryIO, Final

from context_engine.ingest.reading import CutDocument, load_file, read_file

logger = logging.getLogger(__name__)
READY: Final = b"R"
"""The task was received; reading of the first file begins."""
ITEMS: Final = b"I"
"""Items of a file; more will follow."""
DONE: Final = b"D"
"""The last items of a file; the next file begins."""
FULL: Final = b"M"
"""The file takes more memory than it may."""
ERROR: Final = b"E"
"""An exception that ends the run."""
_HEAD: Final = struct.Struct(">cQ")
_MOST_IDLE: Final = 2
_MOST_KEPT: Final = 128 << 20
_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from context_engine.ingest.process import serve; serve()"
)
_idle: list[Process] = []
_idle_lock = threading.Lock()
_MOST_ITEMS: Final = 64
_MOST_CHARS: Final = 256 * 1024
_MOST_SILENCE_S: Final = 1.0
_ORPHAN_S: Final = 60
"""Seconds that a worker waits for a task, or outlives a file's time limit, before the system ends it."""


def write_frame(stream: IO[bytes], kind: bytes, body: bytes = b"") -> None:
    """Write one message."""
    stream.write(_HEAD.pack(kind, len(body)))
    stream.write(body)
    stream.flush()


def frame_of(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Return the next message as (kind, body); None if the other side has ended."""
    try:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        kind, size = _HEAD.unpack(head)
        body = stream.read(size)
    except (OSError, ValueError):  # ValueError: closed by another thread
        return None
    return (kind, body) if len(body) == size else None


class Process:
    """A worker process; `used` is whether it has read files before."""

    def __init__(self) -> None:
        self.used = False
        self._lock = threading.Lock()
        self._ended = False
        self._base = 0
        self._scratch = _scratch()
        self._popen = subprocess.Popen(
            [sys.executable, "-c", _START, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=self._environment(),
            start_new_session=os.name == "posix",  # Ctrl-C in the terminal must reach only us; we end the worker
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._in, self._out = self._popen.stdin, self._popen.stdout

    def ask(self, task: bytes) -> None:
        """Send a task with our import path, folder and environment; `answer` finds out if the process has died."""
        message = pickle.dumps((sys.path, _folder(), self._environment(), task))
        try:
            write_frame(self._in, READY, message)
        except (OSError, ValueError):
            logger.debug("a process ended before it was given a file to read")

    def answer(self) -> tuple[bytes, bytes] | None:
        """Return its next message; None if it has ended."""
        message = frame_of(self._out)
        if message and message[0] == READY:
            self._base = _resident(self._popen.pid)
        return message

    def grown(self) -> int:
        """Return the bytes of memory that it and its children gained since its task began; 0 if unknown."""
        return _resident(self._popen.pid) - self._base if self._base else 0

    def alive(self) -> bool:
        """Whether it still runs."""
        with self._lock:
            return not self._ended and self._popen.poll() is None

    def kill(self) -> None:
        """End it and its children; a thread that waits in `answer` gets None."""
        with self._lock:
            if self._ended or self._popen.returncode is not None:
                return
            started = _family(self._popen.pid)  # some may lead their own group
            self._popen.kill()
            for pid in started if os.name == "posix" else ():
                try:
                    os.killpg(pid, signal.SIGKILL) if pid == self._popen.pid else os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue

    def end(self) -> None:
        """End it and release its resources; may be called twice."""
        self.kill()
        with self._lock:
            self._ended = True
            self._popen.wait()
            for pipe in (self._in, self._out):
                try:
                    pipe.close()
                except OSError:  # unwritten data is left in the pipe
                    continue
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": self._scratch} if self._scratch else dict(os.environ)


def borrowed() -> Process:
    """Return an idle process, else start one, which takes as long as reading a hundred small files."""
    while True:
        with _idle_lock:
            process = _idle.pop() if _idle else None
        if process is None:
            return Process()
        if process.alive():
            return process
        process.end()


def give_back(process: Process) -> None:
    """Keep a process for the next task; it ends if none comes for a while."""
    process.used = True
    with _idle_lock:
        if len(_idle) < _MOST_IDLE and process.grown() < _MOST_KEPT:
            _idle.append(process)
            return
    process.end()


@atexit.register
def _end_idle() -> None:
    while _idle:
        _idle.pop().end()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # they belong to the parent


def _scratch() -> str | None:
    """Return a new folder for temporary files; None if it cannot be made (most files do not need one)."""
    try:
        return tempfile.mkdtemp(prefix="context-engine-")
    except OSError:
        return None


def _folder() -> str | None:
    """Return the current folder; None if it was deleted."""
    try:
        return str(Path.cwd())
    except OSError:
        return None


def _resident(pid: int) -> int:
    """Return the resident bytes of a process and its descendants; 0 if the system does not report them."""
    total = 0
    for member in _family(pid):
        try:
            total += int(Path(f"/proc/{member}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError, AttributeError):
            continue
    return total


def _family(pid: int) -> list[int]:
    """Return a process and its descendants, as far as the system reports them."""
    family = [pid]
    for member in family:
        try:
            for children in Path(f"/proc/{member}/task").glob("*/children"):
                family += map(int, children.read_text().split())
        except (OSError, ValueError):
            continue
    return family


def serve() -> None:
    """Do the tasks from standard input and write the results to standard output."""
    tasks, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # a program that a loader starts must not read our tasks
    os.dup2(2, 1)  # output that a library prints must not mix with the messages
    while True:
        _alarm(_ORPHAN_S)
        message = frame_of(tasks)
        _alarm(0)
        if message is None:
            return
        try:
            _do(message[1], out)
        except OSError:
            os._exit(1)  # the reader is gone
        except Exception as error:  # noqa: BLE001  raised again in the process of the run
            write_frame(out, ERROR, _pickled(error))


def _do(message: bytes, out: BinaryIO) -> None:
    """Read the files of a task."""
    _limit(None)
    sys.path[:], folder, environment, task = pickle.loads(message)
    if folder:
        os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    options, known, jobs, cutting = pickle.loads(task)
    if cutting:
        options.counter.count("")  # what it loads at first use must not count as the first file's memory
    base = _size()
    write_frame(out, READY)
    guard = int(options.settings.file_timeout_s) + _ORPHAN_S
    for job in jobs:
        _limit(base + (options.settings.file_memory_mb << 20) if base else None)
        items = read_file(job, options, known) if cutting else load_file(job, options)
        try:
            _alarm(guard)
            for kind, group in _grouped(items):
                body = pickle.dumps(group, protocol=pickle.HIGHEST_PROTOCOL)
                _alarm(0)
                write_frame(out, kind, body)
                _alarm(guard)
        except MemoryError:
            del items
            write_frame(out, FULL)
            return
        finally:
            _alarm(0)


def _grouped(items: Iterator[Any]) -> Iterator[tuple[bytes, list[Any]]]:
    """Yield a file's items in groups, since a file of records has thousands; at least once a second as a heartbeat."""
    group: list[Any] = []
    size, heard = 0, time.monotonic()
    for item in items:
        group.append(item)
        size += len(item.document.loaded.text) if isinstance(item, CutDocument) else len(getattr(item[1], "text", ""))
        if len(group) == _MOST_ITEMS or size > _MOST_CHARS or time.monotonic() - heard > _MOST_SILENCE_S:
            yield ITEMS, group
            group, size, heard = [], 0, time.monotonic()
    yield DONE, group


def _limit(most: int | None) -> None:
    """Bound the address space of this process, set before each file; None lifts the bound."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = hard if most is None else most
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    except (ImportError, ValueError, OSError):
        return


def _size() -> int:
    """Return the bytes of address space of this process; 0 if the system does not report them."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def _alarm(seconds: int) -> None:
    """Have the system end this process after some seconds, in case the parent is gone; 0 cancels that."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _pickled(error: Exception) -> bytes:
    try:
        body = pickle.dumps(error)
        pickle.loads(body)
    except Exception:  # noqa: BLE001  some cannot be pickled
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return body
