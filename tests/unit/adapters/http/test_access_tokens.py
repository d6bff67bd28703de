"""Access tokens of a token server: fetched once, used until they expire or are refused, shown nowhere."""

from __future__ import annotations

import base64
import logging
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import respx
from pydantic import ValidationError

from context_engine.adapters.http import Api, ApiClient, HttpCall
from context_engine.errors import SourceAuthError, SourceError, SourceProtocolError
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock

BASE = "https://models.example"
TOKENS = "https://login.bank.example/oauth2/token"
SECRET = "Harbour+Secret/0123 456Zq"
TOKEN = "eyJhbGciOi.Harbour0123456789.Zq"
FIELDS = {"base_url": BASE, "token_url": TOKENS, "client_id": "rag engine", "client_secret": SECRET}


class SetClock(FixedClock):
    """Shows the seconds that it is set to."""

    seconds = 0.0

    def monotonic(self) -> float:
        return self.seconds


@pytest.fixture
def clock() -> SetClock:
    return SetClock()


@pytest.fixture
def ask(clock: SetClock) -> Iterator[Callable[..., Any]]:
    """(fields of the connection) -> a function that makes a call over it."""
    opened: list[ApiClient] = []

    def make(**fields: Any) -> Callable[[], Any]:
        connection = Connection.model_validate({**FIELDS, **fields})
        client = ApiClient(Api(), lambda: connection, clock)
        opened.append(client)
        return lambda: client.call(HttpCall("POST", "ask", {}), client.access(), lambda: 30.0).json()

    yield make
    for client in opened:
        client.close()


@pytest.fixture(autouse=True)
def nothing_secret_in_the_log(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    with caplog.at_level(logging.DEBUG):
        yield
    assert SECRET not in caplog.text
    assert TOKEN not in caplog.text


def test_a_token_is_fetched_once_and_sent_with_every_call(web: respx.MockRouter, ask: Any) -> None:
    tokens = web.post(TOKENS).respond(json={"access_token": TOKEN, "token_type": "Bearer", "expires_in": 3600})
    server = web.post(f"{BASE}/ask").respond(json={})
    call = ask(token_scope="models.read models.use")
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda _: call(), range(8)))
    assert (tokens.call_count, server.call_count) == (1, 8)
    asked = tokens.calls.last.request
    pair = base64.b64decode(asked.headers["authorization"].removeprefix("Basic ")).decode()
    assert pair == "rag+engine:Harbour%2BSecret%2F0123+456Zq"
    assert asked.content == b"grant_type=client_credentials&scope=models.read+models.use"
    assert asked.headers["content-type"] == "application/x-www-form-urlencoded"
    assert {call.request.headers["authorization"] for call in server.calls} == {f"Bearer {TOKEN}"}


def test_a_token_is_fetched_again_before_it_expires(web: respx.MockRouter, ask: Any, clock: SetClock) -> None:
    """It is used for .9 of its 100 s."""
    tokens = web.post(TOKENS).respond(json={"access_token": TOKEN, "expires_in": "100"})
    web.post(f"{BASE}/ask").respond(json={})
    call = ask()
    for seconds, fetched in ((0.0, 1), (89.9, 1), (90.0, 2), (179.0, 2), (180.0, 3)):
        clock.seconds = seconds
        call()
        assert tokens.call_count == fetched


def test_a_refused_token_is_replaced_once(web: respx.MockRouter, ask: Any) -> None:
    tokens = web.post(TOKENS).respond(json={"access_token": TOKEN})
    server = web.post(f"{BASE}/ask")
    server.side_effect = [respx.MockResponse(401), respx.MockResponse(200, json={}), *[respx.MockResponse(401)] * 2]
    call = ask()
    call()
    assert (tokens.call_count, server.call_count) == (2, 2)
    with pytest.raises(SourceAuthError):
        call()
    assert (tokens.call_count, server.call_count) == (3, 4)


@pytest.mark.parametrize("status", [400, 401, 403])
def test_refused_credentials_are_told_without_them(web: respx.MockRouter, ask: Any, status: int) -> None:
    web.post(TOKENS).respond(status, json={"error": "invalid_client", "error_description": SECRET})
    with pytest.raises(SourceAuthError, match="correct client_id, client_secret and token_scope") as refused:
        ask()()
    assert SECRET not in repr(refused.value) + str(refused.value)
    assert refused.value.__context__ is None


def test_a_token_server_that_is_down_may_come_back(web: respx.MockRouter, ask: Any) -> None:
    web.post(TOKENS).respond(503)
    with pytest.raises(SourceError, match=r"the token server login\.bank\.example failed inside") as failed:
        ask()()
    assert failed.value.retryable


@pytest.mark.parametrize(
    "answer",
    [[], {}, {"access_token": None}, {"access_token": "two words"}, {"access_token": TOKEN, "expires_in": "soon"}],
)
def test_an_answer_without_a_token_is_an_error(web: respx.MockRouter, ask: Any, answer: Any) -> None:
    web.post(TOKENS).respond(json=answer)
    with pytest.raises(SourceProtocolError, match="gave no access token") as failed:
        ask()()
    assert failed.value.__context__ is None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"client_secret": None}, "belong together"),
        ({"token_url": None, "client_id": None, "client_secret": None, "token_scope": "x"}, "token_scope needs"),
        ({"api_key": "sk-1"}, "set one of them"),
        ({"token_url": "https://me:pw@login.example"}, "user name or password"),
    ],
)
def test_half_a_set_of_credentials_is_refused(fields: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValidationError, match=problem):
        Connection.model_validate({**FIELDS, **fields})
    assert SECRET not in repr(Connection.model_validate(FIELDS))


def test_a_key_may_stand_alone_in_a_header_of_its_own(web: respx.MockRouter, ask: Any) -> None:
    server = web.post(f"{BASE}/ask").respond(json={})
    ask(token_url=None, client_id=None, client_secret=None, api_key="sk-1", api_key_header="api-key")()
    headers = server.calls.last.request.headers
    assert (headers["api-key"], "authorization" in headers) == ("sk-1", False)
