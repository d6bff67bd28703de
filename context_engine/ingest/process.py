"""A process that reads files for us, and the few that wait to be used again.

It is started by command, not forked: a fork would copy the locks that other threads hold at that moment. It leads a
process group of its own, so that what a loader starts ends with it; and it has a folder of its own for temporary
files, which go with it however it ends.
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
from pathlib import Path
from typing import IO, Final

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
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); from context_engine.ingest.serving import serve; serve()"
)


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
        found = frame_of(self._out)
        if found and found[0] == READY:
            self._base = _resident(self._popen.pid)
        return found

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


_idle: list[Process] = []
_idle_lock = threading.Lock()


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
    for one in _family(pid):
        try:
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except (OSError, ValueError, IndexError, AttributeError):
            continue
    return total


def _family(pid: int) -> list[int]:
    """Return a process, those it started, those they started and so on, as far as the system tells."""
    found = [pid]
    for one in found:
        try:
            for children in Path(f"/proc/{one}/task").glob("*/children"):
                found += map(int, children.read_text().split())
        except (OSError, ValueError):
            continue
    return found
