"""What every server is held to, whatever its kind: size, cookies, redirects, keys, rate."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest
import respx

from context_engine.adapters.http import Api, ApiClient, HttpCall, KeyHeader
from context_engine.adapters.http.client import RateBudget, shared_budget
from context_engine.core.engine.search_plan import SystemClock
from context_engine.errors import (
    ConfigError,
    SourceAuthError,
    SourceError,
    SourceForbidden,
    SourceProtocolError,
    SourceRateLimited,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection, read_connections
from context_engine.testing import FixedClock

from .conftest import BASE, KEY, Ask, everything

MIB = 1024 * 1024


def forever() -> float:
    return 1000.0


def test_what_goes_out(api: Api, ask: Ask, web: respx.MockRouter) -> None:
    route = web.post(f"{BASE}/v1/ask").respond(json={"ok": True}, headers={"set-cookie": "token=abc; Path=/"})
    assert ask(api).json() == {"ok": True}
    sent = route.calls.last.request
    assert sent.headers["authorization"] == f"Bearer {KEY}"
    assert sent.headers["accept-encoding"] == "identity"
    assert json.loads(sent.content) == {"q": "x"}


def test_no_cookie_is_kept(api: Api, web: respx.MockRouter) -> None:
    route = web.post(f"{BASE}/v1/ask").respond(json={}, headers={"set-cookie": f"token={KEY}; Path=/"})
    client = ApiClient(api, lambda: Connection.model_validate({"base_url": BASE, "api_key": KEY}), SystemClock())
    for _ in range(2):
        client.call(HttpCall("POST", "ask"), client.access(), forever)
    assert all("cookie" not in call.request.headers for call in route.calls)
    client.close()


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_redirect_is_not_followed_and_the_key_goes_nowhere_else(
    api: Api, status: int, ask: Ask, web: respx.MockRouter
) -> None:
    elsewhere = web.route(host="elsewhere.example").respond(json={})
    web.post(f"{BASE}/v1/ask").respond(status, headers={"location": "https://elsewhere.example/"})
    with pytest.raises(SourceProtocolError, match="answers with a redirect, which is not followed: correct base_url"):
        ask(api)
    assert not elsewhere.called


@pytest.mark.parametrize(
    "answer",
    [
        {"json": {}, "headers": {"content-length": str(MIB + 1)}},
        {"json": {}, "headers": {"content-length": "9" * 5000}},
        {"content": b" " * (MIB + 1)},
    ],
    ids=["declared", "declared beyond all numbers", "sent"],
)
def test_a_longer_answer_than_the_api_gives_is_not_read(
    api: Api, answer: dict[str, Any], ask: Ask, web: respx.MockRouter
) -> None:
    web.post(f"{BASE}/v1/ask").respond(**answer)
    with pytest.raises(SourceProtocolError, match="the answer is longer than 1 MiB: ask for less at once"):
        ask(replace(api, max_bytes=MIB))


def test_a_compressed_answer_is_refused_for_nobody_asked_for_it(api: Api, ask: Ask, web: respx.MockRouter) -> None:
    web.post(f"{BASE}/v1/ask").respond(content=b"\x1f\x8b", headers={"content-encoding": "gzip"})
    with pytest.raises(SourceProtocolError, match="compressed"):
        ask(api)


@pytest.mark.parametrize("header", [KeyHeader("Authorization", "Bearer"), KeyHeader("Api-Key")])
@pytest.mark.parametrize(
    "fault",
    [
        httpx.ConnectError(f"refused {KEY}"),
        httpx.ReadTimeout(f"late {KEY}"),
        httpx.RemoteProtocolError(KEY),
        httpx.Response(200, text=f"<html>{KEY}", headers={"content-type": KEY}),
        httpx.Response(302, headers={"location": f"https://{KEY}.example/"}),
        httpx.Response(400, json={"error": {"message": f"bad {KEY}", "code": KEY}}, headers={"set-cookie": f"k={KEY}"}),
        httpx.Response(401, json={"message": f"bad {KEY}"}, headers={"x-echo": KEY}),
        httpx.Response(403, text=KEY),
        httpx.Response(429, headers={"retry-after": KEY}),
        httpx.Response(500, text=f"Traceback: Bearer {KEY}", headers={"x-echo": KEY}),
    ],
    ids=lambda fault: str(getattr(fault, "status_code", type(fault).__name__)),
)
def test_the_key_is_in_no_error_no_chain_and_no_log(
    api: Api, header: KeyHeader, fault: Any, ask: Ask, web: respx.MockRouter, caplog: pytest.LogCaptureFixture
) -> None:
    """In the second form httpx would not mask it: it knows the name Authorization alone."""
    caplog.set_level(logging.DEBUG)
    route = web.post(f"{BASE}/v1/ask").mock(side_effect=[fault, fault])
    with pytest.raises(SourceError) as raised:
        ask(replace(api, key_header=header)).json()
    assert KEY in route.calls[0].request.headers[header.name], "it was sent"
    error: BaseException | None = raised.value
    for text in (*everything(error), caplog.text, *(repr(vars(record)) for record in caplog.records)):
        assert KEY not in text
    while error is not None:
        assert not isinstance(error, httpx.HTTPError)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize("key", ["two words", "line\nbreak", "schlüssel-schlüssel"])
def test_a_key_that_cannot_be_sent_is_not_sent(api: Api, key: str, ask: Ask, web: respx.MockRouter) -> None:
    with pytest.raises(
        ConfigError, match=f"{BASE} cannot be used: api_key holds white space or characters that"
    ) as raised:
        ask(api, api_key=key)
    assert key not in str(raised.value)
    assert not web.calls


def test_without_a_key_none_is_sent_or_the_api_says_that_it_needs_one(
    api: Api, ask: Ask, web: respx.MockRouter
) -> None:
    route = web.post(f"{BASE}/v1/ask").respond(json={})
    if api.key_required:
        with pytest.raises(ConfigError, match=f"the connection to {BASE} has no api_key: give it"):
            ask(api, api_key=None)
    else:
        ask(api, api_key=None)
        assert "authorization" not in route.calls.last.request.headers


def only(good: str, refused: int = 401) -> Callable[[httpx.Request], httpx.Response]:
    """Let one key in alone."""

    def answer(request: httpx.Request) -> httpx.Response:
        return httpx.Response(200 if request.headers["authorization"] == f"Bearer {good}" else refused, json={})

    return answer


@pytest.mark.parametrize("status", [401, 403])
def test_a_key_file_that_has_changed_is_read_again_when_its_key_is_refused(
    api: Api, status: int, tmp_path: Path, web: respx.MockRouter
) -> None:
    (tmp_path / "key").write_text("first-key-0001\n")
    (tmp_path / "connections.yaml").write_text(f"kb:\n  base_url: {BASE}\n  api_key: ${{file:key}}\n")
    connections = read_connections(tmp_path / "connections.yaml", "connections.yaml", {})
    route = web.post(f"{BASE}/v1/ask").mock(side_effect=only("second-key-0002", status))
    client = ApiClient(api, lambda: connections.get("kb"), SystemClock())
    access = client.access()
    (tmp_path / "key").write_text("second-key-0002\n")
    for _ in range(2):
        assert client.call(HttpCall("POST", "ask"), access, forever).status == 200
    assert route.call_count == 3  # the old key once, the new one from then on
    client.close()


@pytest.mark.parametrize(("status", "error"), [(401, SourceAuthError), (403, SourceForbidden)])
def test_a_key_that_has_not_changed_is_not_sent_again(
    api: Api, status: int, error: type[SourceError], ask: Ask, web: respx.MockRouter
) -> None:
    route = web.post(f"{BASE}/v1/ask").respond(status)
    with pytest.raises(error):
        ask(api)
    assert route.call_count == 1


def test_a_key_that_cannot_be_read_again_is_said_with_the_refusal(api: Api, web: respx.MockRouter) -> None:
    web.post(f"{BASE}/v1/ask").respond(401)
    reads = count()

    def connect() -> Connection:
        if next(reads):
            raise ConfigError("there is no file /run/secrets/key")
        return Connection.model_validate({"base_url": BASE, "api_key": KEY})

    client = ApiClient(api, connect, SystemClock())
    with pytest.raises(SourceAuthError, match=r"the API key was refused: .*; reading it again failed: there is no f"):
        client.call(HttpCall("POST", "ask"), client.access(), forever)


def test_each_of_several_threads_goes_on_with_the_new_key(api: Api, web: respx.MockRouter) -> None:
    """Both have sent the old one when the first of them reads the new one."""
    both = threading.Barrier(2)
    keys = iter(["old-key-00001"] + ["new-key-00002"] * 2)

    def answer(request: httpx.Request) -> httpx.Response:
        if request.headers["authorization"].endswith("1"):
            both.wait(10)
            return httpx.Response(401)
        return httpx.Response(200, json={})

    web.post(f"{BASE}/v1/ask").mock(side_effect=answer)
    client = ApiClient(api, lambda: Connection.model_validate({"base_url": BASE, "api_key": next(keys)}), SystemClock())
    access, statuses = client.access(), list[Any]()

    def run() -> None:
        try:
            statuses.append(client.call(HttpCall("POST", "ask"), access, forever).status)
        except SourceError as error:
            statuses.append(error)

    threads = [threading.Thread(target=run) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert statuses == [200, 200]
    client.close()


def test_a_rotated_key_keeps_the_connections_open(api: Api, web: respx.MockRouter) -> None:
    web.post(f"{BASE}/v1/ask").mock(side_effect=only("new-key-00002"))
    keys = iter(["old-key-00001", "new-key-00002"])
    client = ApiClient(api, lambda: Connection.model_validate({"base_url": BASE, "api_key": next(keys)}), SystemClock())
    client.call(HttpCall("POST", "ask"), client.access(), forever)
    assert len(client._clients) == 1
    client.close()


class SteppedClock(FixedClock):
    """Its seconds pass when they are told to."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


def test_the_rate_of_a_plan_is_kept_by_all_clients_of_the_process(api: Api, web: respx.MockRouter) -> None:
    web.post(f"{BASE}/v1/ask").respond(json={})
    connection = Connection.model_validate({"base_url": BASE, "api_key": str(uuid4()), "rate_per_minute": 2})
    clock, slept = SteppedClock(), list[float]()

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        clock.seconds += seconds

    first, second = (ApiClient(api, lambda: connection, clock, sleep) for _ in range(2))
    for client in (first, second):
        client.call(HttpCall("POST", "ask"), client.access(), forever)
        clock.seconds += 1.0
    if api.waits_for_rate:
        first.call(HttpCall("POST", "ask"), first.access(), forever)
        assert slept == [58.0]  # the call at 0 leaves the window at 60
        with pytest.raises(SourceRateLimited):
            second.call(HttpCall("POST", "ask"), second.access(), lambda: 0.5)  # the next place is free in 1 s
    else:
        with pytest.raises(SourceRateLimited, match="used up for another 58 s, so Dify was not asked") as raised:
            first.call(HttpCall("POST", "ask"), first.access(), forever)
        assert raised.value.retry_after_s == 58.0
    assert second.free_calls(second.access()) == 0


def test_a_certificate_file_that_cannot_be_used_is_said(api: Api, tmp_path: Path, ask: Ask) -> None:
    (tmp_path / "ca.pem").write_text("no certificate")
    with pytest.raises(SourceUnavailable, match="its connection cannot be used: a certificate file"):
        ask(api, ca_bundle=tmp_path / "ca.pem")


def test_a_client_that_is_closed_while_it_is_used_fails_as_any_other_and_opens_again(
    api: Api, web: respx.MockRouter
) -> None:
    web.post(f"{BASE}/v1/ask").respond(json={})
    client = ApiClient(api, lambda: Connection.model_validate({"base_url": BASE, "api_key": KEY}), SystemClock())
    client.call(HttpCall("POST", "ask"), client.access(), forever)
    for one in client._clients.values():
        one.close()
    with pytest.raises(SourceUnavailable, match=r"the connection to .* broke \(RuntimeError\)") as raised:
        client.call(HttpCall("POST", "ask"), client.access(), forever)
    assert raised.value.retryable
    client.close()
    assert client.call(HttpCall("POST", "ask"), client.access(), forever).status == 200
    client.close()


def test_a_budget_is_a_window_of_60_seconds():
    budget = RateBudget()
    for now in (0.0, 1.0, 2.0):
        assert budget.take(3, now, now) == 0.0
    assert budget.free(3, 2.0) == 0
    assert budget.take(3, 10.0, 10.0) == 50.0  # the call at 0 leaves the window at 60
    assert budget.take(3, 60.0, 60.0) == 0.0
    assert budget.free(3, 60.5) == 0
    assert budget.free(3, 61.0) == 1


def test_calls_that_were_not_made_do_not_count():
    budget = RateBudget()
    assert budget.take(1, 0.0, 0.0) == 0.0
    assert [budget.take(1, now, now) for now in (1.0, 30.0, 59.5)] == [59.0, 30.0, 0.5]
    assert budget.take(1, 60.0, 60.0) == 0.0


def test_no_limit_is_no_limit():
    budget = RateBudget()
    for _ in range(5000):
        assert budget.take(None, 0.0, 0.0) == 0.0
    assert budget.free(None, 0.0) is None


def test_after_a_refusal_there_is_silence_for_a_window():
    budget = RateBudget()
    budget.refused(100.0)
    assert budget.free(None, 101.0) == 0
    assert budget.take(None, 130.0, 130.0) == 30.0
    assert budget.take(None, 160.0, 160.0) == 0.0


def test_the_search_that_was_refused_may_finish_its_calls():
    budget = RateBudget()
    budget.refused(100.0)
    assert budget.take(None, 100.1, 99.0) == 0.0
    assert budget.take(None, 100.2, 100.1) == 59.8


def test_a_budget_belongs_to_a_server_and_a_key():
    assert shared_budget("https://a", "k") is shared_budget("https://a", "k")
    assert shared_budget("https://a", "k") is not shared_budget("https://a", "other")
