"""The time of an answer that comes in parts: one wait for the first part, another for each further one, and an end."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from context_engine.adapters.http import Api, ApiClient, HttpCall, HttpStream
from context_engine.adapters.http.deadline import PartLimit
from context_engine.errors import SourceForbidden, SourceProtocolError, SourceTimeout
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock

from .conftest import KEY, Loopback, everything

HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"


def test_the_wait_for_the_first_part_is_another_than_for_the_next_ones() -> None:
    seconds = [0.0]
    limit = PartLimit(60.0, 10.0, lambda: 100.0 - seconds[0], lambda: seconds[0])
    assert (limit.next_s(), limit.silence_s) == (60.0, 60.0)
    seconds[0] = 50.0
    assert limit.next_s() == 10.0
    limit.came()
    assert (limit.next_s(), limit.silence_s) == (10.0, 10.0)
    seconds[0] = 95.0
    limit.came()
    assert limit.next_s() == 5.0  # the whole call ends at 100


@pytest.fixture
def begin() -> Iterator[Callable[..., HttpStream]]:
    """(base URL, seconds left) -> an answer that is still coming."""
    opened: list[ApiClient] = []

    def begun(
        base_url: str, left: Callable[[], float] = lambda: 30.0, *, silence_s: float = 0.5, **more: Any
    ) -> HttpStream:
        api = Api(max_bytes=more.pop("max_bytes", 1000))
        connection = Connection.model_validate({"base_url": base_url, "api_key": KEY, **more})
        client = ApiClient(api, lambda: connection, FixedClock())
        opened.append(client)
        return client.stream(HttpCall("POST", "ask", {}), client.access(), left, first_s=5.0, silence_s=silence_s)

    yield begun
    for client in opened:
        client.close()


def test_parts_are_given_as_they_come(begin: Any, loopback: Callable[..., Loopback]) -> None:
    """The server sends a chunk and then nothing more: the chunk is there before the silence is over."""
    stream = begin(loopback(HEAD + b"5\r\nfirst\r\n").url)
    parts = stream.parts()
    assert next(parts) == b"first"
    with pytest.raises(SourceTimeout, match=r"was silent for 0\.5 s .*: lower its load, or raise first_s or silence_s"):
        next(parts)
    stream.close()


@pytest.mark.slow
@pytest.mark.parametrize("encrypted", [False, True])
def test_a_part_that_comes_late_but_in_time_is_whole(
    begin: Any, loopback: Callable[..., Loopback], own_ca: tuple[Path, ssl.SSLContext], encrypted: bool
) -> None:
    """0.6 s is longer than one look at the socket, and shorter than the silence that is borne."""
    bundle, context = own_ca
    server = loopback(HEAD + b"5\r\nfirst\r\n", later=b"6\r\nsecond\r\n0\r\n\r\n", tls=context if encrypted else None)
    assert list(begin(server.url, silence_s=20.0, ca_bundle=bundle).parts()) == [b"first", b"second"]


def test_a_caller_who_wants_no_more_is_not_kept_waiting(begin: Any, loopback: Callable[..., Loopback]) -> None:
    wanted = [30.0]
    stream = begin(loopback(HEAD + b"5\r\nfirst\r\n").url, lambda: wanted[0], max_bytes=100)
    parts = stream.parts()
    assert next(parts) == b"first"
    wanted[0] = 0.0
    with pytest.raises(SourceTimeout, match="did not answer in time"):
        next(parts)


def test_an_answer_is_cut_at_its_bytes(begin: Any, loopback: Callable[..., Loopback]) -> None:
    stream = begin(loopback(HEAD + b"5\r\nfirst\r\n6\r\nsecond\r\n0\r\n\r\n").url, max_bytes=10)
    with pytest.raises(SourceProtocolError, match="the answer is longer than"):
        list(stream.parts())


def test_a_refusal_is_read_and_holds_no_key(begin: Any, loopback: Callable[..., Loopback]) -> None:
    body = b"HTTP/1.1 403 Forbidden\r\nContent-Length: %d\r\n\r\n%s" % (len(KEY), KEY.encode())
    with pytest.raises(SourceForbidden) as refused:
        begin(loopback(body).url)
    assert not any(KEY in shown for shown in everything(refused.value))
