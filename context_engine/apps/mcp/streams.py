"""The standard streams of a process as the wire of a protocol of lines: nothing else reads or writes them."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Final, Self

_READ_BYTES: Final = 65_536
_WAITING: Final = 64

Line = bytes | None
"""A line without its end; None stands for one that was too long."""


@contextmanager
def claimed() -> Iterator[tuple[int, int]]:
    """Yield the descriptors of stdin and stdout; meanwhile nobody else reads the one, and the other leads to stderr."""
    own = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield own
    finally:
        for private, standard in zip(own, (0, 1)):
            os.dup2(
                private, standard
            )  # the private one stays open: a thread may wait in it as long as the process lives


class LineReader:
    """Lines of a descriptor, read by a thread of its own, which may wait in it for ever without holding anything up.

    Args:
        most_bytes: of a line.
    """

    def __init__(self, descriptor: int, most_bytes: int) -> None:
        self._descriptor, self._most_bytes = descriptor, most_bytes
        self._loop = asyncio.get_running_loop()
        self._lines: asyncio.Queue[tuple[Line] | None] = asyncio.Queue()
        self._room = threading.Semaphore(_WAITING)
        threading.Thread(target=self._read, name="context-engine-mcp-stdin", daemon=True).start()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Line:
        found = await self._lines.get()
        if found is None:
            raise StopAsyncIteration
        self._room.release()
        return found[0]

    def _read(self) -> None:
        with suppress(OSError, RuntimeError):  # the descriptor or the loop was closed
            for line in self._split():
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._lines.put_nowait, (line,))
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)

    def _split(self) -> Iterator[Line]:
        """Yield lines; of one that is too long no more is kept than there may be."""
        held, too_long = bytearray(), False
        while data := os.read(self._descriptor, _READ_BYTES):
            *ended, rest = data.split(b"\n")
            for part in ended:
                whole = bytes(held + part)
                yield None if too_long or len(whole) > self._most_bytes else whole
                held, too_long = bytearray(), False
            held += rest
            if len(held) > self._most_bytes:
                held, too_long = bytearray(), True
        if held or too_long:
            yield None if too_long else bytes(held)


class LineWriter:
    """Writes lines to a descriptor in a thread of its own, one whole line after the other.

    Args:
        on_broken: called once in that thread where nobody reads any more.
    """

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._descriptor, self._on_broken = descriptor, on_broken
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="context-engine-mcp-stdout", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Have a line written."""
        self._waiting.put(line + b"\n")

    def close(self, timeout_s: float) -> None:
        """Wait until everything is written, at most so many seconds."""
        self._waiting.put(None)
        self._thread.join(timeout_s)

    def _write(self) -> None:
        try:
            while (line := self._waiting.get()) is not None:
                while line:
                    line = line[os.write(self._descriptor, line) :]
        except OSError:
            self._on_broken()
