"""Time, over real sockets: answers that drip, servers that are silent, names that are not found, proxies, TLS."""

from __future__ import annotations

import socket
import ssl
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from context_engine.adapters.http import Api, ApiClient, HttpCall
from context_engine.core.engine.search_plan import SystemClock
from context_engine.errors import SourceTimeout, SourceUnavailable
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock

from .conftest import KEY, Ask, Loopback

GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 100000\r\n"


@pytest.mark.parametrize("said", [HEAD + b"\r\n", HEAD + b"X-Long: "], ids=["body", "head"])
def test_an_answer_that_comes_byte_by_byte_has_an_end(
    api: Api, said: bytes, ask: Ask, loopback: Callable[..., Loopback]
) -> None:
    """A byte every 0.05 s never trips the 10 s of silence; the end of the call does."""
    server = loopback(said, drips=True)
    with pytest.raises(SourceTimeout, match="did not answer in time: the answer was not all there"):
        ask(api, server.url, left=server.until())


class JumpingClock(FixedClock):
    """Stands at 0 s until a server is asked, then at those that are given."""

    def __init__(self, server: Loopback, seconds: float) -> None:
        super().__init__()
        self._server, self._seconds = server, seconds

    def monotonic(self) -> float:
        return self._seconds if self._server.requests else 0.0


def test_without_a_nearer_deadline_the_end_is_three_times_the_silence(
    api: Api, ask: Ask, loopback: Callable[..., Loopback]
) -> None:
    """3 * 10 s = 30 s."""
    dripping, good = loopback(HEAD + b"X-Long: ", drips=True), loopback(GOOD)
    with pytest.raises(SourceTimeout, match="the answer was not all there"):
        ask(api, dripping.url, timeout_s=10, clock=JumpingClock(dripping, 30.0))
    assert ask(api, good.url, timeout_s=10, clock=JumpingClock(good, 29.9)).status == 200


def test_a_server_that_says_nothing_is_left(api: Api, ask: Ask, loopback: Callable[..., Loopback]) -> None:
    with pytest.raises(
        SourceTimeout, match=r"was silent for 0\.7 s \(ReadTimeout\): lower its load, or raise timeout_s"
    ):
        ask(api, loopback(b"").url, timeout_s=0.7)


def test_a_call_that_was_left_holds_no_connection(api: Api, loopback: Callable[..., Loopback]) -> None:
    """With one connection allowed, the next call gets it."""
    server = loopback(HEAD + b"X-Long: ", drips=True)
    connection = Connection.model_validate({"base_url": server.url, "api_key": KEY, "max_connections": 1})
    client = ApiClient(api, lambda: connection, SystemClock())
    for number in (1, 2, 3):
        with pytest.raises(SourceTimeout, match="the answer was not all there"):
            client.call(HttpCall("POST", "ask"), client.access(), server.until(number))
    assert len(server.requests) == 3
    client.close()


def test_a_host_whose_look_up_hangs_is_left(api: Api, ask: Ask, monkeypatch: pytest.MonkeyPatch) -> None:
    answered = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_args, **_more: answered.wait(30) and [])
    try:
        with pytest.raises(SourceUnavailable, match=r"could not be reached \(ConnectTimeout\)"):
            ask(api, "https://nowhere.meridian-harbour.example", timeout_s=0.2)
    finally:
        answered.set()


def test_no_time_is_no_call(api: Api, ask: Ask, loopback: Callable[..., Loopback]) -> None:
    server = loopback(GOOD)
    with pytest.raises(SourceTimeout, match="no time was left to ask"):
        ask(api, server.url, left=lambda: 0.0)
    assert server.requests == []


@pytest.mark.parametrize("named_by", ["the connection", "the environment"])
def test_a_proxy_is_asked_in_the_servers_place_and_as_strictly(
    api: Api, named_by: str, ask: Ask, loopback: Callable[..., Loopback], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("NO_PROXY", "no_proxy", "ALL_PROXY", "all_proxy", "HTTP_PROXY", "http_proxy"):
        monkeypatch.delenv(name, raising=False)

    def through(proxy: Loopback, left: Callable[[], float]) -> None:
        if named_by == "the environment":
            monkeypatch.setenv("HTTP_PROXY", proxy.url)
        fields = {"proxy": proxy.url} if named_by == "the connection" else {}
        assert ask(api, "http://kb.meridian-harbour.example", left=left, **fields).status == 200

    good, dripping = loopback(GOOD), loopback(HEAD + b"X-Long: ", drips=True)
    through(good, lambda: 30.0)
    assert good.requests[0].startswith(b"POST http://kb.meridian-harbour.example/v1/ask HTTP/1.1")
    with pytest.raises(SourceTimeout, match="the answer was not all there"):
        through(dripping, dripping.until())


def test_a_bundle_of_ones_own_is_trusted_and_nothing_else(
    api: Api, ask: Ask, loopback: Callable[..., Loopback], own_ca: tuple[Path, ssl.SSLContext]
) -> None:
    bundle, context = own_ca
    server = loopback(GOOD, tls=context)
    assert ask(api, server.url, ca_bundle=bundle).status == 200
    with pytest.raises(SourceUnavailable, match=r"could not be reached: its certificate is not trusted"):
        ask(api, server.url)
    assert len(server.requests) == 1


def test_a_dripping_answer_has_an_end_over_tls_too(
    api: Api, ask: Ask, loopback: Callable[..., Loopback], own_ca: tuple[Path, ssl.SSLContext]
) -> None:
    bundle, context = own_ca
    server = loopback(HEAD, drips=True, tls=context)
    with pytest.raises(SourceTimeout, match="the answer was not all there"):
        ask(api, server.url, left=server.until(), ca_bundle=bundle)
