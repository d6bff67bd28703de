"""HTTP/1.1 over a raw socket: what two readers could read differently is refused, or has one meaning."""

from __future__ import annotations

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn

from context_engine.apps.server import running as protocol
from tests.unit.apps.server.small_service import small_client, small_service

Send = Callable[..., list[int]]
GOOD = b'{"query": "limit"}'
HEAD = (
    b"POST /api/asked HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer clerk\r\nContent-Type: application/json\r\n"
)
LENGTH = b"Content-Length: %d\r\n" % len(GOOD)
CHUNKED = b"Transfer-Encoding: chunked\r\n"
IN_CHUNKS = b"%x\r\n%b\r\n0\r\n\r\n" % (len(GOOD), GOOD)
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"


@pytest.fixture(scope="module")
def port() -> Iterator[int]:
    """The port of a service in a thread."""
    app: Any = small_client(small_service()).app
    config = uvicorn.Config(app, http=protocol.ProblemProtocol, ws="none", lifespan="off", log_config=None, port=0)
    server = uvicorn.Server(config)
    serving = threading.Thread(target=server.run)
    serving.start()
    while not server.started:
        time.sleep(0.01)
    yield server.servers[0].sockets[0].getsockname()[1]
    server.should_exit = True
    serving.join()


@pytest.fixture
def statuses(port: int) -> Callable[..., list[int]]:
    """Sends parts of bytes over one connection, then ends it; returns the statuses of all answers."""

    def send(*parts: bytes) -> list[int]:
        with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
            answered = b""
            try:
                for part in parts:
                    connection.sendall(part)
                    time.sleep(0.01)
                connection.shutdown(socket.SHUT_WR)
                while received := connection.recv(65536):
                    answered += received
            except ConnectionError:  # it was closed while more was sent
                pass
        return [int(status) for status in re.findall(rb"HTTP/1\.1 (\d{3}) ", answered)]

    return send


@pytest.mark.parametrize(
    "sent",
    {
        "a length": HEAD + LENGTH + b"\r\n" + GOOD,
        "chunks": HEAD + CHUNKED + b"\r\n" + IN_CHUNKS,
        "the same length twice": HEAD + LENGTH + LENGTH + b"\r\n" + GOOD,
        "a chunk with an extension": HEAD + CHUNKED + b"\r\n" + IN_CHUNKS.replace(b"\r\n", b";name=value\r\n", 1),
    }.items(),
    ids=lambda sent: sent[0],
)
def test_what_has_one_meaning_is_answered(statuses: Send, sent: tuple[str, bytes]) -> None:
    assert statuses(sent[1]) == [200]


@pytest.mark.parametrize(
    "sent",
    {
        "a length and chunks": HEAD + LENGTH + CHUNKED + b"\r\n" + IN_CHUNKS,
        "chunks and a length": HEAD + CHUNKED + LENGTH + b"\r\n" + IN_CHUNKS,
        "two lengths": HEAD + LENGTH + b"Content-Length: 3\r\n\r\n" + GOOD,
        "a list of two lengths": HEAD + b"Content-Length: 18, 3\r\n\r\n" + GOOD,
        "a length with a sign": HEAD + b"Content-Length: +18\r\n\r\n" + GOOD,
        "a length in hex": HEAD + b"Content-Length: 0x12\r\n\r\n" + GOOD,
        "a length with a space before the colon": HEAD + b"Content-Length : 18\r\n\r\n" + GOOD,
        "a coding that is not known": HEAD + b"Transfer-Encoding: xchunked\r\n\r\n" + IN_CHUNKS,
        "two codings": HEAD + b"Transfer-Encoding: gzip, chunked\r\n\r\n" + IN_CHUNKS,
        "chunked twice": HEAD + b"Transfer-Encoding: chunked, chunked\r\n\r\n" + IN_CHUNKS,
        "a folded coding": HEAD + b"Transfer-Encoding:\r\n chunked\r\n" + LENGTH + b"\r\n" + IN_CHUNKS,
        "a chunk size with a sign": HEAD + CHUNKED + b"\r\n+" + IN_CHUNKS,
        "a chunk size in other digits": HEAD + CHUNKED + b"\r\n0x" + IN_CHUNKS,
        "a chunk without its end": HEAD + CHUNKED + b"\r\n" + IN_CHUNKS.replace(b"}\r\n", b"}", 1),
        "no host": HEAD.replace(b"Host: 127.0.0.1\r\n", b"") + LENGTH + b"\r\n" + GOOD,
        "two hosts": HEAD + b"Host: other\r\n" + LENGTH + b"\r\n" + GOOD,
        "a name with a space": HEAD + b"X Y: 1\r\n" + LENGTH + b"\r\n" + GOOD,
        "NUL in a value": HEAD + b"X-A: a\x00b\r\n" + LENGTH + b"\r\n" + GOOD,
        "a bare CR in a value": HEAD + b"X-A: a\rTransfer-Encoding: chunked\r\n" + LENGTH + b"\r\n" + GOOD,
        "another version": HEAD.replace(b"HTTP/1.1", b"HTTP/9.9", 1) + LENGTH + b"\r\n" + GOOD,
        "chunks in HTTP/1.0": HEAD.replace(b"HTTP/1.1", b"HTTP/1.0", 1) + CHUNKED + b"\r\n" + IN_CHUNKS,
        "two tokens": HEAD + b"Authorization: Bearer chair\r\n" + LENGTH + b"\r\n" + GOOD,
    }.items(),
    ids=lambda sent: sent[0],
)
def test_what_could_be_read_in_two_ways_is_refused_and_ends_the_connection(
    statuses: Send, sent: tuple[str, bytes]
) -> None:
    found = statuses(sent[1] + HEALTH)
    assert found[0] in (400, 501), found
    assert 200 not in found or sent[0] == "two tokens", "what follows is not read as another request"


def test_a_folded_field_is_one_value(statuses: Send) -> None:
    folded = HEAD + b"X-Request-Id: one\r\n two\r\n" + LENGTH + b"\r\n" + GOOD
    assert statuses(folded + HEALTH) in ([200, 200], [400])


def test_pipelined_requests_are_answered_in_order(statuses: Send) -> None:
    assert statuses(HEALTH + HEAD + LENGTH + b"\r\n" + GOOD + b"GET /none HTTP/1.1\r\nHost: a\r\n\r\n") == [
        200,
        200,
        404,
    ]


def test_a_body_cut_off_is_no_request(statuses: Send) -> None:
    assert statuses(HEAD + LENGTH + b"\r\n" + GOOD[:5]) in ([], [400])
    assert statuses(HEAD + CHUNKED + b"\r\n" + IN_CHUNKS[:7]) in ([], [400])


def test_parts_that_come_slowly_are_one_request(statuses: Send) -> None:
    whole = HEAD + LENGTH + b"\r\n" + GOOD
    assert statuses(*(whole[at : at + 40] for at in range(0, len(whole), 40))) == [200]


def test_bytes_after_the_end_of_chunks_are_another_request(statuses: Send) -> None:
    assert statuses(HEAD + CHUNKED + b"\r\n" + IN_CHUNKS + HEALTH) == [200, 200]


@pytest.mark.parametrize(("path", "status"), [("/healthz", 200), ("/openapi.json", 200), ("/none", 404)])
def test_head_is_answered_as_get_without_the_body(port: int, path: str, status: int) -> None:
    head = b"HEAD %b HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n" % path.encode()
    told, _, body = answered(port, head).partition(b"\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 %d " % status) and body == b""
    length = re.search(rb"content-length: (\d+)", told)
    asked = answered(port, head.replace(b"HEAD", b"GET", 1)).partition(b"\r\n\r\n")[2]
    assert length is not None and int(length[1]) == len(asked)


@pytest.mark.wording
@pytest.mark.parametrize(
    ("sent", "detail"), [(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + b"a" * 50, "TLS"), (b"hi\r\n\r\n", "Host")]
)
def test_what_is_no_http_is_told_what_to_send(
    port: int, caplog: pytest.LogCaptureFixture, sent: bytes, detail: str
) -> None:
    assert detail.encode() in answered(port, sent)
    assert detail in caplog.text


def answered(port: int, sent: bytes) -> bytes:
    """Return everything that a connection answers until it closes."""
    with socket.create_connection(("127.0.0.1", port), timeout=30) as connection:
        connection.sendall(sent)
        return b"".join(iter(lambda: connection.recv(65536), b""))
