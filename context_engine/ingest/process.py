"""A process that reads files for us: both ends of the pipe, and the few processes kept for reuse.

It is started by command, not forked: a fork would copy the locks that other threads hold at that moment. It leads a
process group of its own, so that what a loader starts ends with it; and it has its own folder for temporary files,
which is deleted however the process ends.

Memory is limited where the system reports the size of a process and can bound its address space (Linux): a file may
take `file_memory_mb` beyond what the process held before the first file. Only the soft limit is set, so that a program
which a loader starts may set its own. Elsewhere only the limits on time and output hold."""

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
"""The task is understood; the first file is begun."""
ITEMS: Final = b"I"
"""Items of a file; more of it follow."""
DONE: Final = b"D"
"""The last items of a file; the next is begun."""
FULL: Final = b"M"
"""The file takes more memory than it may."""
ERROR: Final = b"E"
"""A flaw that ends the run: the exception."""
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
"""How long a process outlives whoever should give it a task, or should have ended it."""


def write_frame(stream: IO[bytes], kind: bytes, body: bytes = b"") -> None:
    """Write one message."""
    stream.write(_HEAD.pack(kind, len(body)))
    stream.write(body)
    stream.flush()


def frame_of(stream: IO[bytes]) -> tuple[bytes, bytes] | None:
    """Return the next message: its kind and body; None where the other side has ended."""
    try:
        head = stream.read(_HEAD.size)
        if len(head) < _HEAD.size:
            return None
        kind, size = _HEAD.unpack(head)
        body = stream.read(size)
    except (OSError, ValueError):  # the latter: closed by another thread
        return None
    return (kind, body) if len(body) == size else None


class Process:
    """One process; `used` says whether it has read files before."""

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
            start_new_session=os.name == "posix",  # Ctrl-C in the terminal reaches us, and we end it
        )
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._in, self._out = self._popen.stdin, self._popen.stdout

    def ask(self, task: bytes) -> None:
        """Hand over a task, with what the process must share with us to do it; one that died is found out later."""
        message = pickle.dumps((sys.path, _folder(), self._environment(), task))
        try:
            write_frame(self._in, READY, message)
        except (OSError, ValueError):
            logger.debug("a process ended before it was given a file to read")

    def answer(self) -> tuple[bytes, bytes] | None:
        """Return its next message; None where it has ended."""
        message = frame_of(self._out)
        if message and message[0] == READY:
            self._base = _resident(self._popen.pid)
        return message

    def grown(self) -> int:
        """Return the bytes of memory that it and what it started hold beyond what it began with; 0 if not known."""
        return _resident(self._popen.pid) - self._base if self._base else 0

    def alive(self) -> bool:
        """Whether it still runs."""
        with self._lock:
            return not self._ended and self._popen.poll() is None

    def kill(self) -> None:
        """End it and what it started; whoever waits for its answer gets None."""
        with self._lock:
            if self._ended or self._popen.returncode is not None:
                return
            started = _family(self._popen.pid)  # some may lead a group of their own
            self._popen.kill()
            for pid in started if os.name == "posix" else ():
                try:
                    os.killpg(pid, signal.SIGKILL) if pid == self._popen.pid else os.kill(pid, signal.SIGKILL)
                except (ProcessLookupError, PermissionError):
                    continue

    def end(self) -> None:
        """End it and let go of it; may be called twice."""
        self.kill()
        with self._lock:
            self._ended = True
            self._popen.wait()
            for pipe in (self._in, self._out):
                try:
                    pipe.close()
                except OSError:  # something was still to be written
                    continue
        if self._scratch:
            shutil.rmtree(self._scratch, ignore_errors=True)

    def _environment(self) -> dict[str, str]:
        return {**os.environ, "TMPDIR": self._scratch} if self._scratch else dict(os.environ)


def borrowed() -> Process:
    """Return a process that waits for a task, else a new one: to start one takes as long as a hundred small files."""
    while True:
        with _idle_lock:
            process = _idle.pop() if _idle else None
        if process is None:
            return Process()
        if process.alive():
            return process
        process.end()


def give_back(process: Process) -> None:
    """Keep a process that has done its task for the next; it ends by itself when there is none for a while."""
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
    os.register_at_fork(after_in_child=_idle.clear)  # they are the parent's


def _scratch() -> str | None:
    """Return a new folder for temporary files; None where none can be made, which most files can do without."""
    try:
        return tempfile.mkdtemp(prefix="context-engine-")
    except OSError:
        return None


def _folder() -> str | None:
    """Return the current folder; None where it is gone."""
    try:
        return str(Path.cwd())
    except OSError:
        return None


def _resident(pid: int) -> int:
    """Return the resident bytes of a process and of all that it started; 0 where the system does not tell."""
    total = 0
    for member in _family(pid):
        try:
            total += int(Path(f"/proc/{member}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError, AttributeError):
            continue
    return total


def _family(pid: int) -> list[int]:
    """Return a process, those it started, those they started and so on, as far as the system tells."""
    family = [pid]
    for member in family:
        try:
            for children in Path(f"/proc/{member}/task").glob("*/children"):
                family += map(int, children.read_text().split())
        except (OSError, ValueError):
            continue
    return family


def serve() -> None:
    """Do the tasks that standard input brings and write what comes of them to standard output."""
    tasks, out = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "wb")
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)  # what a loader starts must not read our tasks
    os.dup2(2, 1)  # whatever a library prints must not stand among the messages
    while True:
        _alarm(_ORPHAN_S)
        message = frame_of(tasks)
        _alarm(0)
        if message is None:
            return
        try:
            _do(message[1], out)
        except OSError:
            os._exit(1)  # nobody reads any more
        except Exception as error:  # noqa: BLE001  it is raised again where the run is
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
        options.counter.count("")  # what it loads at first use is not the first file's
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
    """Yield a file's items in groups, for a file of records gives thousands; whoever waits hears of us every second."""
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
    """Bound the address space of this process, anew for each file, for a loader may have changed it; None: do not."""
    try:
        import resource

        hard = resource.getrlimit(resource.RLIMIT_AS)[1]
        wanted = hard if most is None else most
        resource.setrlimit(resource.RLIMIT_AS, (wanted if hard == resource.RLIM_INFINITY else min(wanted, hard), hard))
    except (ImportError, ValueError, OSError):
        return


def _size() -> int:
    """Return the bytes of address space this process holds; 0 where the system does not tell."""
    try:
        return int(Path("/proc/self/statm").read_text().split()[0]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return 0


def _alarm(seconds: int) -> None:
    """Have the system end this process after a while if whoever should do so is gone; 0: not any more."""
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)


def _pickled(error: Exception) -> bytes:
    try:
        body = pickle.dumps(error)
        pickle.loads(body)
    except Exception:  # noqa: BLE001  some cannot be handed over
        return pickle.dumps(RuntimeError(f"{type(error).__name__}: {error}"))
    return body
