"""The loopback server: one thread for each connection, keep-alive, and a log of requests."""

from __future__ import annotations

import gzip
import json
import os
import re
import socket
import struct
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final

from context_engine.testing.fake_dify.app import AppRequest, AppResponse, DifyApp, route_of
from context_engine.testing.fake_dify.faults import Fault, Injection, Wire

_MIB: Final = 1024 * 1024
_BLANKS: Final = b" " * _MIB
_HUGE_MIB: Final = 32


def send(
    connection: socket.socket,
    answer: AppResponse,
    *,
    wire: Wire,
    pause: Callable[[], object],
    headers: tuple[tuple[str, str], ...],
) -> bool:
    """Send an answer and return whether the connection stays open; `pause` comes before each byte of a slow part."""
    if wire == "dropped":
        return False
    if wire == "reset":
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        os.close(connection.detach())  # no shutdown before: that would send FIN instead of RST
        return False
    if wire == "gzip_bomb":
        answer = AppResponse(answer.status, _bomb(), (*answer.headers, ("Content-Encoding", "gzip")))
    head = _head(answer, headers, wire)
    for piece in _pieces(head, answer.body, wire, pause):
        connection.sendall(piece)
    return wire in ("whole", "slow_head", "slow_body", "gzip_bomb")


def _head(answer: AppResponse, headers: tuple[tuple[str, str], ...], wire: Wire) -> bytes:
    size = len(answer.body) + _HUGE_MIB * _MIB * (wire == "huge")
    length = ("Transfer-Encoding", "chunked") if wire == "huge_chunked" else ("Content-Length", str(size))
    lines = [f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase.upper()}"]
    lines += [f"{name}: {value}" for name, value in (*headers, *answer.headers, length)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _pieces(head: bytes, body: bytes, wire: Wire, pause: Callable[[], object]) -> Iterator[bytes]:
    if wire == "huge_chunked":
        yield head
        for piece in (body, *[_BLANKS] * _HUGE_MIB):
            yield f"{len(piece):x}\r\n".encode() + piece + b"\r\n"
    elif wire == "huge":
        yield head + body
        yield from [_BLANKS] * _HUGE_MIB
    elif wire == "truncated":
        yield head + body[: len(body) // 2]
    else:
        slow = {"slow_head": head, "slow_body": body}.get(wire, b"")
        yield head if wire == "slow_body" else b""
        for byte in slow:
            pause()
            yield bytes([byte])
        yield {"slow_head": body, "slow_body": b""}.get(wire, head + body)


@cache
def _bomb() -> bytes:
    return gzip.compress(b"{}" + _BLANKS * _HUGE_MIB, mtime=0)


_HIDDEN: Final = ("authorization", "cookie", "x-api-key")
_WHOLE: Final = Fault()


@dataclass(frozen=True)
class FakeRequest:
    """A logged request.

    Attributes:
        path: including the query string.
        headers: names in lower case; the values of authorization, cookie and x-api-key are "***".
        body: the parsed JSON; None if it is missing or broken.
        authorized: whether the key was right; the key itself is not kept.
    """

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    authorized: bool


class FakeDifyServer(ThreadingHTTPServer):
    """Holds the app, the faults, the log and the open connections."""

    daemon_threads = True
    request_queue_size = 256

    def __init__(self, port: int, app: DifyApp, headers: tuple[tuple[str, str], ...]) -> None:
        self.app, self.headers = app, headers
        self.lock, self.stopping = threading.Lock(), threading.Event()
        self.injections: list[Injection] = []
        self.requests: list[FakeRequest] = []
        self.connections, self.most_connections, self.busy, self.most_busy = 0, 0, 0, 0
        self._open: dict[socket.socket, threading.Thread] = {}
        super().__init__(("127.0.0.1", port), _Handler)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Serve one connection."""
        with self.lock:
            self._open[request] = threading.current_thread()
            self.connections += 1
            self.most_connections = max(self.most_connections, len(self._open))
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self.lock:
                del self._open[request]

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a client that has disconnected; show any other error, which is a bug."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)

    def call(self, call: AppRequest) -> tuple[Callable[[], AppResponse], Fault]:
        """Log a call; return a function that answers it, and the fault that applies."""
        route = route_of(call.target, call.method)
        with self.lock:
            self.requests.append(_logged(call, self.app))
            fault = next((each.fault for each in self.injections if each.strikes(route)), _WHOLE)
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
        return lambda: self._answer(call), fault

    def _answer(self, call: AppRequest) -> AppResponse:
        with self.lock:  # the rate window and the datasets are not thread-safe
            return self.app.answer(call)

    def done(self) -> None:
        """Count a call as answered."""
        with self.lock:
            self.busy -= 1

    def close(self) -> None:
        """Stop, close every connection and wait for its thread."""
        self.stopping.set()
        self.shutdown()
        self.server_close()
        with self.lock:
            still_open = dict(self._open)
        for connection, thread in still_open.items():
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass  # the client closed it first
            thread.join(5)


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: FakeDifyServer

    def do_GET(self) -> None:
        """Answer a call of any method."""
        length = int(self.headers.get("Content-Length") or 0)
        headers = {name.lower(): value for name, value in self.headers.items()}
        call = AppRequest(self.command, self.path, headers, self.rfile.read(length))
        answer, fault = self.server.call(call)
        try:
            self._send(answer, fault, hybrid=_is_hybrid(call.body))
        except OSError:
            self.close_connection = True
        finally:
            self.server.done()

    do_POST = do_PUT = do_PATCH = do_DELETE = do_GET  # noqa: N815

    def _send(self, answer: Callable[[], AppResponse], fault: Fault, *, hybrid: bool) -> None:
        def pause() -> None:
            self.server.stopping.wait(fault.delay_s)

        if fault.delay_s and not fault.wire.startswith("slow"):
            pause()
        made = fault.apply(answer, hybrid=hybrid)
        if not send(self.connection, made, wire=fault.wire, pause=pause, headers=self.server.headers):
            self.close_connection = True

    def log_message(self, format: str, *args: Any) -> None:
        """Log nothing."""


def _is_hybrid(body: bytes) -> bool:
    return re.search(rb'"search_method":\s*"hybrid_search"', body) is not None


def _logged(call: AppRequest, app: DifyApp) -> FakeRequest:
    headers = {name: "***" if name in _HIDDEN else value for name, value in call.headers.items()}
    try:
        body = json.loads(call.body)
    except ValueError:
        body = None
    return FakeRequest(call.method, call.target, headers, body, app.knows_key(call.headers.get("authorization", "")))
