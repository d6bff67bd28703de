"""What the tests of the transport share: both kinds of server, asked over a mock or over a socket of their own."""

from __future__ import annotations

import re
import socket
import ssl
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import respx

import context_engine
from context_engine.adapters.http import Api, ApiClient, HttpAnswer, HttpCall
from context_engine.adapters.model_access.server import model_api
from context_engine.adapters.sources.dify.api import DIFY
from context_engine.core.engine.search_plan import SystemClock
from context_engine.settings.connections import Connection

KEY = "sk-Harbour0123456789Zq"
BASE = "https://kb.meridian-harbour.example"

PACKAGE = Path(context_engine.__file__).parent

Ask = Callable[..., HttpAnswer]


@pytest.fixture(params=[DIFY, model_api("v1")], ids=["dify", "model"])
def api(request: pytest.FixtureRequest) -> Api:
    """Each kind of server in turn: what one is held to, the other is too."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def web() -> Iterator[respx.MockRouter]:
    with respx.mock(assert_all_called=False) as router:
        yield router


@pytest.fixture
def ask() -> Iterator[Ask]:
    """(api, base URL, seconds left, fields of the connection) -> the answer of one call."""
    opened: list[ApiClient] = []

    def asked(
        api: Api, base_url: str = BASE, *, left: Callable[[], float] = lambda: 30.0, clock: Any = None, **fields: Any
    ) -> HttpAnswer:
        connection = Connection.model_validate({"base_url": base_url, "api_key": KEY, **fields})
        client = ApiClient(api, lambda: connection, clock or SystemClock())
        opened.append(client)
        return client.call(HttpCall("POST", "ask", {"q": "x"}), client.access(), left)

    yield asked
    for client in opened:
        client.close()


class Loopback:
    """A server on this machine that says the same bytes to every request, and then drips if it is told to.

    Args:
        said: bytes, at once.
        drips: afterwards a byte every 0.05 s, for ever.
        later: bytes, 0.6 s afterwards.
        tls: its certificate, if it has one.
    """

    def __init__(
        self, said: bytes, *, drips: bool = False, later: bytes = b"", tls: ssl.SSLContext | None = None
    ) -> None:
        self._said, self._drips, self._later, self._tls = said, drips, later, tls
        self.requests: list[bytes] = []
        self._ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port = self._listening.getsockname()[1]
        self.url = f"http{'s' * (tls is not None)}://127.0.0.1:{self.port}"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._listening.close()

    def until(self, requests: int = 1) -> Callable[[], float]:
        """Return what says that there is time until so many requests are here, and none afterwards."""
        return lambda: 30.0 if len(self.requests) < requests else 0.0

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            end = connection if self._tls is None else self._tls.wrap_socket(connection, server_side=True)
            while request := _whole_request(end):
                self.requests.append(request)
                end.sendall(self._said)
                if self._later and not self._ended.wait(0.6):
                    end.sendall(self._later)
                while self._drips and not self._ended.wait(0.05):
                    end.sendall(b" ")


def _whole_request(connection: socket.socket) -> bytes:
    """Read one request, however many packets it comes in; empty where there is none."""
    data = b""
    while part := connection.recv(65536):
        data += part
        head, blank, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if blank and len(body) >= (int(length[1]) if length else 0):
            return data
    return b""


@pytest.fixture
def loopback() -> Iterator[Callable[..., Loopback]]:
    servers: list[Loopback] = []

    def start(said: bytes, **options: Any) -> Loopback:
        servers.append(Loopback(said, **options))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def everything(error: BaseException | None) -> Iterator[str]:
    """Yield all that can be read off an error: texts, fields, the variables of the package's frames, its causes."""
    while error is not None:
        yield repr(error) + str(error) + repr(error.args) + repr(vars(error))
        for frame, _ in traceback.walk_tb(error.__traceback__):
            if Path(frame.f_code.co_filename).is_relative_to(PACKAGE):
                yield from map(repr, frame.f_locals.values())
                yield from (repr(vars(one)) for one in frame.f_locals.values() if hasattr(one, "__dict__"))
        error = error.__cause__ or error.__context__
