"""What a process that reads files does: take a task, read its files one after the other, hand over what they gave.

Memory is limited where the system tells a process its size and bounds its address space (Linux): a file may take
`file_memory_mb` beyond what the process held before the first. Only the soft limit is set, so that a program which a
loader starts may set its own. Elsewhere the limit does not hold, those of time and output do.
"""

from __future__ import annotations

import os
import pickle
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO, Final

from context_engine.ingest.process import DONE, ERROR, FULL, ITEMS, READY, frame_of, write_frame
from context_engine.ingest.reading import CutDocument, load_file, read_file

_MOST_ITEMS: Final = 64
_MOST_CHARS: Final = 256 * 1024
_MOST_SILENCE_S: Final = 1.0
_ORPHAN_S: Final = 60
"""How long a process outlives whoever should give it a task, or should have ended it."""


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
        found = read_file(job, options, known) if cutting else load_file(job, options)
        try:
            _alarm(guard)
            for kind, group in _grouped(found):
                body = pickle.dumps(group, protocol=pickle.HIGHEST_PROTOCOL)
                _alarm(0)
                write_frame(out, kind, body)
                _alarm(guard)
        except MemoryError:
            del found
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
