"""The total time of a call, kept at the socket.

httpx bounds the silence between two bytes, not the whole answer: a server that sends a byte now and then is never
finished, in its headers or its body. Here every read and write of a socket gets only what is left of the whole call,
and a connection is opened in a thread, because a host lookup has no time limit of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Final, Self

import httpcore
import httpx

from context_engine.core.concurrency.calls import EXECUTOR, Busy, done_within

_WRITTEN_AT_ONCE: Final = 64 * 1024
_LOOK_EVERY_S: Final = 0.25


class TimeLimit(float):
    """The longest silence in seconds; it also ends with the whole call, in `left` seconds.

    Attributes:
        raised_by: what an operator raises for a longer silence, for messages.
    """

    left: Callable[[], float]
    raised_by = "timeout_s of the connection"

    def __new__(cls, silence_s: float, left: Callable[[], float]) -> Self:
        limit = super().__new__(cls, silence_s)
        limit.left = left
        return limit

    @property
    def silence_s(self) -> float:
        """The longest silence at this point of the call."""
        return float(self)

    def next_s(self) -> float:
        """Return the seconds that the next read or write may take."""
        return min(self.silence_s, self.left())


class PartLimit(TimeLimit):
    """The longest wait for the next part of an answer that comes in parts; the wait for the first may be longer.

    While a part is awaited, `left` is asked again several times a second: a caller who wants no more makes it 0.
    """

    raised_by = "first_s or silence_s of the model, or timeout_s of the connection"
    _monotonic: Callable[[], float]
    _due: float
    _waits_s: float
    _next_s: float

    def __new__(
        cls, first_s: float, silence_s: float, left: Callable[[], float], monotonic: Callable[[], float]
    ) -> Self:
        limit = super().__new__(cls, first_s, left)
        limit._monotonic, limit._waits_s, limit._next_s = monotonic, first_s, silence_s
        limit._due = monotonic() + first_s
        return limit

    @property
    def silence_s(self) -> float:
        """The wait for the first part, afterwards the one for each further part."""
        return self._waits_s

    def next_s(self) -> float:
        """Return the seconds until the next part is due."""
        return min(self._due - self._monotonic(), self.left())

    def came(self) -> None:
        """Begin to wait for another part."""
        self._waits_s = self._next_s
        self._due = self._monotonic() + self._next_s


def keep_deadlines(client: httpx.Client) -> None:
    """Make a client's connections keep the `TimeLimit` of each request, also through a proxy."""
    for transport in (client._transport, *client._mounts.values()):
        if isinstance(transport, httpx.HTTPTransport):
            pool: Any = transport._pool
            pool._network_backend = _TimedNetwork(pool._network_backend)


class _TimedNetwork:
    """Opens connections in time; an httpcore network backend."""

    def __init__(self, network: Any) -> None:
        self._network = network

    def connect_tcp(self, host: str, port: int, timeout: float | None = None, **options: Any) -> _TimedStream:
        seconds = _seconds(timeout, httpx.ConnectTimeout)

        def connect() -> Any:
            return self._network.connect_tcp(host, port, timeout=seconds, **options)

        return _TimedStream(_in_time(connect, seconds))

    def connect_unix_socket(self, path: str, timeout: float | None = None, **options: Any) -> _TimedStream:
        seconds = _seconds(timeout, httpx.ConnectTimeout)
        return _TimedStream(self._network.connect_unix_socket(path, timeout=seconds, **options))

    def sleep(self, seconds: float) -> None:
        self._network.sleep(seconds)


class _TimedStream:
    """Reads and writes in time; an httpcore network stream."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def read(self, max_bytes: int, timeout: float | None = None) -> Any:
        if not isinstance(timeout, PartLimit):
            return self._stream.read(max_bytes, timeout=_seconds(timeout, httpx.ReadTimeout))
        while True:
            seconds = min(_seconds(timeout, httpx.ReadTimeout) or 0.0, _LOOK_EVERY_S)
            with suppress(httpcore.ReadTimeout):
                return self._stream.read(max_bytes, timeout=seconds)

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        """Send bytes in parts, because a server may also be slow to read."""
        for start in range(0, len(buffer), _WRITTEN_AT_ONCE):
            part = buffer[start : start + _WRITTEN_AT_ONCE]
            self._stream.write(part, timeout=_seconds(timeout, httpx.WriteTimeout))

    def start_tls(
        self, ssl_context: Any, server_hostname: str | None = None, timeout: float | None = None
    ) -> _TimedStream:
        seconds = _seconds(timeout, httpx.ConnectTimeout)
        return _TimedStream(self._stream.start_tls(ssl_context, server_hostname, seconds))

    def close(self) -> None:
        self._stream.close()

    def get_extra_info(self, info: str) -> Any:
        return self._stream.get_extra_info(info)


def _seconds(limit: float | None, late: type[httpx.TimeoutException]) -> float | None:
    """Return the seconds that are left now."""
    if not isinstance(limit, TimeLimit):
        return limit
    seconds = limit.next_s()
    if seconds <= 0:
        raise late("the time of the whole call is up")
    return seconds


def _in_time(connect: Callable[[], Any], seconds: float | None) -> Any:
    """Return a connection opened within some seconds; one that comes later is closed."""
    if seconds is None:
        return connect()
    try:
        opened = EXECUTOR.submit(connect, "connect")
    except Busy as busy:
        raise httpx.ConnectError(str(busy)) from None
    if done_within(opened, seconds):
        return opened.result()
    opened.add_done_callback(_close_unused)
    raise httpx.ConnectTimeout(f"no connection within {seconds:g} s")


def _close_unused(opened: Future[Any]) -> None:
    if opened.exception() is None:
        opened.result().close()
