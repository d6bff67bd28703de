"""The total time of a call, kept at the socket.

httpx bounds the silence between two bytes, not the whole answer: a server that sends a byte now and then is never
finished, in its headers or its body. Here every read and write of a socket gets only what is left of the whole call,
and a connection is opened in a thread, because a host lookup has no time limit of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Final

import httpx

from context_engine.core.concurrency.calls import EXECUTOR, Busy, done_within

_WRITTEN_AT_ONCE: Final = 64 * 1024


class TimeLimit(float):
    """The longest silence in seconds; it also ends with the whole call, in `left` seconds."""

    left: Callable[[], float]

    def __new__(cls, silence_s: float, left: Callable[[], float]) -> TimeLimit:
        limit = super().__new__(cls, silence_s)
        limit.left = left
        return limit


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
        return self._stream.read(max_bytes, timeout=_seconds(timeout, httpx.ReadTimeout))

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
    seconds = min(float(limit), limit.left())
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
