"""The tools over the standard streams of this process."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import Any, Final, Self

from mcp.server.stdio import stdio_server
from mcp.types import (
    INVALID_REQUEST,
    PARSE_ERROR,
    ErrorData,
    JSONRPCError,
    JSONRPCMessage,
    JSONRPCRequest,
    jsonrpc_message_adapter,
)
from pydantic import ValidationError

from context_engine.apps.mcp.protocol import Work, mcp_server
from context_engine.apps.mcp.reply import SentReply
from context_engine.core.models import Authenticated
from context_engine.service.deployment import Deployment

_TERMINATED: Final = 143  # 128 + SIGTERM, as shells report it
_THREADS: Final = 4
_ANSWERED_EVERY_S: Final = 0.02


def serve_stdio(deployment: Deployment, caller: Authenticated) -> bool:
    """Answer messages from stdin on stdout, until stdin is closed and everything is answered, or a signal arrives.

    Only the protocol goes to stdout: other output to it is redirected to stderr. SIGTERM and SIGINT stop it gracefully,
    within `server_stop_s` seconds; a second signal ends the process at once.

    Args:
        caller: of every call: the user who runs this process.

    Returns:
        True if stdin was closed, False after a signal.
    """
    threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="context-engine-mcp")
    try:
        with claimed() as (stdin, stdout):
            return asyncio.run(_serve(deployment, caller, threads, stdin, stdout))
    finally:
        threads.shutdown(cancel_futures=True)


async def _serve(
    deployment: Deployment, caller: Authenticated, threads: ThreadPoolExecutor, stdin: int, stdout: int
) -> bool:
    loop, settings = asyncio.get_running_loop(), deployment.settings

    async def desk(_request: Any, work: Work, _domain: str | None) -> SentReply:
        return await loop.run_in_executor(threads, work, deployment, caller)

    ended = _Ended(loop, settings.server_stop_s)
    wire = _StdioWire(
        LineReader(stdin, settings.server_max_body_bytes), LineWriter(stdout, ended.from_thread), settings.server_stop_s
    )
    serving, ending = asyncio.create_task(_answer(mcp_server(desk), wire)), asyncio.create_task(ended.wait())
    await asyncio.wait((serving, ending), return_when=asyncio.FIRST_COMPLETED)
    closed = serving.done()
    for task in (serving, ending):
        task.cancel()
    await asyncio.gather(serving, ending, return_exceptions=True)
    await asyncio.to_thread(wire.close)
    if closed:
        serving.result()
    return closed


async def _answer(server: Any, wire: _StdioWire) -> None:
    async with stdio_server(wire.messages(), wire) as streams:  # type: ignore[arg-type]
        await server.run(*streams, server.create_initialization_options())


class _Ended:
    """Set by a signal, or when stdout is closed by its reader."""

    def __init__(self, loop: asyncio.AbstractEventLoop, within_s: float) -> None:
        self._loop, self._within_s, self._event = loop, within_s, asyncio.Event()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, ValueError, RuntimeError):  # on Windows, or not in the main thread
                loop.add_signal_handler(number, self._signalled)

    async def wait(self) -> None:
        await self._event.wait()

    def from_thread(self) -> None:
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._event.set)

    def _signalled(self) -> None:
        if self._event.is_set():
            os._exit(_TERMINATED)
        self._event.set()
        last = threading.Timer(self._within_s, os._exit, (_TERMINATED,))
        last.daemon = True
        last.start()


class _StdioWire:
    """Both directions of the connection; answers invalid messages, which the SDK would ignore.

    Args:
        wait_s: seconds that answers may take after stdin is closed.
    """

    def __init__(self, reader: LineReader, writer: LineWriter, wait_s: float) -> None:
        self._reader, self._writer, self._wait_s = reader, writer, wait_s
        self._unanswered = 0

    async def messages(self) -> AsyncIterator[str]:
        """Yield each valid message."""
        async for line in self._reader:
            message = self._read(line)
            if message is None or line is None:
                continue
            self._unanswered += isinstance(message, JSONRPCRequest)
            yield line.decode()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._all_answered(), self._wait_s)

    async def write(self, text: str) -> None:
        """Write a message of the SDK."""
        self._unanswered -= '"result":' in text or '"error":' in text
        self._writer.put(text.rstrip("\n").encode())

    async def flush(self) -> None:
        """Do nothing: every message is written at once."""

    def close(self) -> None:
        self._writer.close(self._wait_s)

    async def _all_answered(self) -> None:
        while self._unanswered > 0:
            await asyncio.sleep(_ANSWERED_EVERY_S)

    def _read(self, line: Line) -> JSONRPCMessage | None:
        """Return the message, or None if the line is not one."""
        if line is None:
            self._refuse(INVALID_REQUEST, "the message is too long: send a shorter one")
            return None
        try:
            return jsonrpc_message_adapter.validate_json(line.decode(), by_name=False) if line.strip() else None
        except UnicodeDecodeError:
            self._refuse(PARSE_ERROR, "the message is not UTF-8 text")
        except ValidationError as error:
            if any(
                problem["type"] == "json_invalid" for problem in error.errors(include_input=False, include_url=False)
            ):
                self._refuse(PARSE_ERROR, "the line is not JSON: send one message as JSON on one line")
            else:
                self._refuse(INVALID_REQUEST, "the line is not a single JSON-RPC message; batches are not supported")
        return None

    def _refuse(self, code: int, message: str) -> None:
        error = JSONRPCError(jsonrpc="2.0", id=None, error=ErrorData(code=code, message=message))
        self._writer.put(error.model_dump_json(by_alias=True, exclude_unset=True).encode())


_READ_BYTES: Final = 65_536
_WAITING: Final = 64
Line = bytes | None
"""A line without its end; None if it was too long."""


@contextmanager
def claimed() -> Iterator[tuple[int, int]]:
    """Yield private descriptors of stdin and stdout; meanwhile the standard ones are empty and stderr."""
    own = os.dup(0), os.dup(1)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    os.close(nothing)
    try:
        yield own
    finally:
        for private, standard in zip(own, (0, 1)):
            # The private one stays open: a thread may block in it for the life of the process.
            os.dup2(private, standard)


class LineReader:
    """Lines of a descriptor, read by a separate daemon thread, which may block for ever without delaying the exit.

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
        line = await self._lines.get()
        if line is None:
            raise StopAsyncIteration
        self._room.release()
        return line[0]

    def _read(self) -> None:
        with suppress(OSError, RuntimeError):  # the descriptor or the loop was closed
            for line in self._split():
                self._room.acquire()
                self._loop.call_soon_threadsafe(self._lines.put_nowait, (line,))
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(self._lines.put_nowait, None)

    def _split(self) -> Iterator[Line]:
        """Yield lines; of a line that is too long at most `most_bytes` are kept in memory."""
        pending, too_long = bytearray(), False
        while data := os.read(self._descriptor, _READ_BYTES):
            *ended, rest = data.split(b"\n")
            for part in ended:
                line = bytes(pending + part)
                yield None if too_long or len(line) > self._most_bytes else line
                pending, too_long = bytearray(), False
            pending += rest
            if len(pending) > self._most_bytes:
                pending, too_long = bytearray(), True
        if pending or too_long:
            yield None if too_long else bytes(pending)


class LineWriter:
    """Writes whole lines to a descriptor in a separate thread.

    Args:
        on_broken: called once in that thread if the reader has closed its end.
    """

    def __init__(self, descriptor: int, on_broken: Callable[[], None]) -> None:
        self._descriptor, self._on_broken = descriptor, on_broken
        self._waiting: SimpleQueue[bytes | None] = SimpleQueue()
        self._thread = threading.Thread(target=self._write, name="context-engine-mcp-stdout", daemon=True)
        self._thread.start()

    def put(self, line: bytes) -> None:
        """Queue a line for writing."""
        self._waiting.put(line + b"\n")

    def close(self, timeout_s: float) -> None:
        """Wait until everything is written, at most `timeout_s` seconds."""
        self._waiting.put(None)
        self._thread.join(timeout_s)

    def _write(self) -> None:
        try:
            while (line := self._waiting.get()) is not None:
                while line:
                    line = line[os.write(self._descriptor, line) :]
        except OSError:
            self._on_broken()
