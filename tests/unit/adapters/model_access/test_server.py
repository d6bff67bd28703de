"""A server that drips its answer: never silent for long, and never done."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import pytest

from context_engine.adapters.model_access.server import ModelServer, model_api
from context_engine.core.engine.clock import SystemClock
from context_engine.errors import ContextEngineError, EmbedderError
from context_engine.settings.connections import Connection

KEY = "sk-harbour-0123456789"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"


class Server:
    """Answers on the loopback: the first `dripping` calls in bytes of their own, the others at once."""

    def __init__(self, at_once: bytes, *, dripping: int) -> None:
        self._at_once, self._dripping = at_once, dripping
        self.calls = 0
        self._ended = threading.Event()
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listening.getsockname()[1]}/v1"
        threading.Thread(target=self._serve, daemon=True).start()

    def close(self) -> None:
        self._ended.set()
        self._listening.close()

    def _serve(self) -> None:
        with suppress(OSError):
            while True:
                connection, _ = self._listening.accept()
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with connection, suppress(OSError):
            while _whole_request(connection):
                self.calls += 1
                if self.calls > self._dripping:
                    body = json.dumps({"data": 1}).encode()
                    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n%s" % (len(body), body))
                    continue
                connection.sendall(self._at_once)
                while not self._ended.wait(0.05):
                    connection.sendall(b" ")


def _whole_request(connection: socket.socket) -> bool:
    """Read one request, however many packets it comes in; False where there is none."""
    data = b""
    while True:
        head, blank, body = data.partition(b"\r\n\r\n")
        length = re.search(rb"(?i)content-length: (\d+)", head)
        if blank and length and len(body) >= int(length[1]):
            return True
        part = connection.recv(65536)
        if not part:
            return False
        data += part


@pytest.fixture
def serve() -> Iterator[Callable[..., Server]]:
    servers: list[Server] = []

    def start(at_once: bytes, *, dripping: int = 1_000) -> Server:
        servers.append(Server(at_once, dripping=dripping))
        return servers[-1]

    yield start
    for server in servers:
        server.close()


def client(server: Server, *, attempts: int = 1, timeout_s: float = 0.2) -> ModelServer:
    connection = Connection(base_url=server.url, api_key=KEY, timeout_s=timeout_s)  # type: ignore[arg-type]

    def error(problem: str, later: bool) -> ContextEngineError:
        return EmbedderError(problem, retryable=later)

    return ModelServer(
        model_api("v1"), lambda: connection, error, clock=SystemClock(), attempts=attempts, sleep=lambda _: None
    )


@pytest.mark.parametrize("at_once", [HEAD + b"\r\n", HEAD + b"X-Long: "], ids=["body", "head"])
def test_an_answer_that_comes_byte_by_byte_has_an_end(serve: Callable[..., Server], at_once: bytes) -> None:
    """A byte every 0.05 s never trips the 0.2 s of silence; 3 * 0.2 s in all do."""
    asked = client(serve(at_once))
    with pytest.raises(EmbedderError, match=r"127\.0\.0\.1 did not answer in time") as failed:
        asked.post("embeddings", {"input": ["text"]})
    assert KEY not in repr(failed.value) + str(failed.value)
    assert failed.value.__context__ is None or KEY not in repr(failed.value.__context__)
    asked.close()


@pytest.mark.parametrize("at_once", [HEAD + b"\r\n", HEAD + b"X-Long: "], ids=["body", "head"])
def test_the_next_attempt_does_not_wait_for_the_one_before(serve: Callable[..., Server], at_once: bytes) -> None:
    server = serve(at_once, dripping=1)
    asked = client(server, attempts=2)
    assert asked.post("embeddings", {"input": ["text"]}) == {"data": 1}
    assert server.calls == 2
    asked.close()
