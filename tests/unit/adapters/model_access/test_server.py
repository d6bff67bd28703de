"""A server of models: its failures are errors of the model, without the key, and every question has an end."""

from __future__ import annotations

import json
import re
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress

import httpx
import pytest
import respx

from context_engine.adapters.chat_models.openai import CHAT_API
from context_engine.adapters.embedders.openai import EMBEDDINGS_API
from context_engine.adapters.model_access import ModelContext
from context_engine.adapters.model_access.server import ModelServer, model_api, open_server
from context_engine.errors import ConfigError, ContextEngineError, EmbedderError
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock

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


class JumpingClock(FixedClock):
    """Stands at 0 s until a server is asked, then at 30 s: three times the silence that is borne."""

    def __init__(self, server: Server) -> None:
        super().__init__()
        self._server = server

    def monotonic(self) -> float:
        return 30.0 if self._server.calls else 0.0


def client(server: Server, *, attempts: int = 1) -> ModelServer:
    connection = Connection(base_url=server.url, api_key=KEY, timeout_s=10)  # type: ignore[arg-type]

    def error(problem: str, later: bool) -> ContextEngineError:
        return EmbedderError(problem, retryable=later)

    return ModelServer(
        model_api("v1"), lambda: connection, error, clock=JumpingClock(server), attempts=attempts, sleep=lambda _: None
    )


@pytest.mark.parametrize("at_once", [HEAD + b"\r\n", HEAD + b"X-Long: "], ids=["body", "head"])
def test_an_answer_that_comes_byte_by_byte_has_an_end(serve: Callable[..., Server], at_once: bytes) -> None:
    """A byte every 0.05 s never trips the 10 s of silence; 3 * 10 s in all do."""
    asked = client(serve(at_once))
    with pytest.raises(EmbedderError, match=r"127\.0\.0\.1 did not answer in time") as failed:
        asked.post("embeddings", {"input": ["text"]})
    assert KEY not in repr(failed.value) + str(failed.value)
    assert failed.value.__context__ is None
    asked.close()


@pytest.mark.parametrize("at_once", [HEAD + b"\r\n", HEAD + b"X-Long: "], ids=["body", "head"])
def test_the_next_attempt_does_not_wait_for_the_one_before(serve: Callable[..., Server], at_once: bytes) -> None:
    server = serve(at_once, dripping=1)
    asked = client(server, attempts=2)
    assert asked.post("embeddings", {"input": ["text"]}) == {"data": 1}
    assert server.calls == 2
    asked.close()


class SteppedClock(FixedClock):
    """Its seconds pass when it is waited."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds, self.slept = 0.0, list[float]()

    def monotonic(self) -> float:
        return self.seconds

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.seconds += seconds


def stepped(clock: SteppedClock, attempts: int) -> ModelServer:
    connection = Connection(base_url="https://models.example", api_key=KEY, timeout_s=10)  # type: ignore[arg-type]

    def error(problem: str, later: bool) -> ContextEngineError:
        return EmbedderError(problem, retryable=later)

    return ModelServer(CHAT_API, lambda: connection, error, clock=clock, attempts=attempts, sleep=clock.sleep)


CHAT = "https://models.example/v1/chat/completions"


def test_a_question_has_an_end_whatever_pauses_are_asked_for() -> None:
    """Two attempts may take 2 * (3 * 10 s + 60 s) = 180 s: of pauses of 100 s, one fits."""
    clock = SteppedClock()
    with respx.mock() as web:
        route = web.post(CHAT).respond(429, headers={"retry-after": "100"})
        with pytest.raises(EmbedderError, match=r"models\.example has no room \(429\)") as failed:
            stepped(clock, attempts=2).post("chat/completions", {})
    assert failed.value.retryable
    assert (route.call_count, clock.slept) == (2, [100.0])


def test_a_pause_that_does_not_fit_is_not_waited_out() -> None:
    clock = SteppedClock()
    with respx.mock() as web:
        route = web.post(CHAT).respond(503, headers={"retry-after": "3600"})
        with pytest.raises(EmbedderError, match=r"failed inside \(503\).*; it asks for a pause of 3600 s$"):
            stepped(clock, attempts=5).post("chat/completions", {})
    assert (route.call_count, clock.slept) == (1, [])


def test_an_error_of_the_model_holds_nothing_of_the_transport() -> None:
    with respx.mock() as web:
        web.post(CHAT).mock(side_effect=httpx.ConnectError(f"refused {KEY}"))
        with pytest.raises(
            EmbedderError, match=r"could not be reached \(ConnectError\): check base_url, proxy"
        ) as failed:
            stepped(SteppedClock(), attempts=2).post("chat/completions", {})
    assert (failed.value.__cause__, failed.value.__context__) == (None, None)


def test_a_chat_answer_is_shorter_than_one_with_vectors_may_be() -> None:
    """Longest batches of vectors: 2048 texts * 1536 numbers * 20 characters = 60 MiB."""
    assert 2048 * 1536 * 20 <= EMBEDDINGS_API.max_bytes == 64 * 1024 * 1024
    with respx.mock() as web:
        web.post(CHAT).respond(json={}, headers={"content-length": str(16 * 1024 * 1024 + 1)})
        with pytest.raises(EmbedderError, match="the answer is longer than 16 MiB"):
            stepped(SteppedClock(), attempts=1).post("chat/completions", {})


def test_a_connection_that_cannot_be_read_any_more_is_an_error_of_the_model() -> None:
    def connect() -> Connection:
        raise ConfigError("there is no file /run/secrets/models")

    server = ModelServer(CHAT_API, connect, lambda problem, _later: EmbedderError(problem), clock=FixedClock())
    with pytest.raises(EmbedderError, match=r"its connection cannot be used: there is no file /run/secrets/models$"):
        server.post("chat/completions", {})


@pytest.mark.parametrize("key", ["two words", "line\nbreak"])
def test_a_key_that_cannot_be_sent_is_said_when_the_server_is_opened(key: str) -> None:
    held = Connection.model_validate({"base_url": "https://models.example", "api_key": key})
    context = ModelContext(connection=lambda _name: held, clock=FixedClock())
    with pytest.raises(ConfigError, match="api_key holds white space"):
        open_server(CHAT_API, context, "models", lambda problem, _later: EmbedderError(problem), attempts=1)
