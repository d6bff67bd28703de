"""What statuses stand for: the usual meanings, a server's own over them, and no word of the server in an error."""

from __future__ import annotations

import json
import logging
from datetime import UTC, datetime

import httpx
import pytest
import respx

from context_engine.adapters.http import Api, ApiClient, HttpAnswer, HttpCall, KeyHeader, Meaning, below_host, refusal
from context_engine.core.engine.search_plan import SystemClock
from context_engine.errors import (
    SourceAuthError,
    SourceError,
    SourceForbidden,
    SourceNotFound,
    SourceProtocolError,
    SourceRateLimited,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection

NOW = datetime(2026, 3, 2, 10, tzinfo=UTC)


def refused(status: int, body: bytes = b"", **headers: str) -> SourceError:
    return refusal(HttpAnswer(status, headers, body), {}, name="Atlas", now=NOW)


@pytest.mark.parametrize(
    ("status", "kind", "retryable", "words"),
    [
        (202, SourceProtocolError, False, "Atlas refused the request (202): the debug log holds its words"),
        (400, SourceProtocolError, False, "Atlas refused the request (400): the debug log holds its words"),
        (401, SourceAuthError, False, "the API key was refused: correct api_key of the connection"),
        (403, SourceForbidden, False, "Atlas refused access (403): give the connection a key that may do this"),
        (404, SourceNotFound, False, "Atlas knows no such address (404): correct base_url of the connection"),
        (408, SourceRateLimited, True, "too many requests (408): lower the load"),
        (413, SourceProtocolError, False, "Atlas refused the request as too large (413): ask for less at once"),
        (425, SourceRateLimited, True, "too many requests (425): lower the load"),
        (429, SourceRateLimited, True, "too many requests (429): lower the load"),
        (500, SourceUnavailable, True, "Atlas failed inside (500): its log says why"),
        (501, SourceUnavailable, False, "Atlas cannot do what it was asked (501): check that base_url is the API's"),
        (503, SourceUnavailable, True, "Atlas failed inside (503): its log says why"),
        (524, SourceUnavailable, True, "Atlas failed inside (524): its log says why"),
        (529, SourceUnavailable, True, "Atlas failed inside (529): its log says why"),
    ],
)
def test_the_usual_meanings(status: int, kind: type[SourceError], retryable: bool, words: str) -> None:
    error = refused(status)
    assert (type(error), error.retryable, str(error)) == (kind, retryable, words)


def test_a_pause_is_read_where_the_call_may_succeed_later() -> None:
    assert refused(503, **{"retry-after": "12"}).retry_after_s == 12.0
    assert refused(400, **{"retry-after": "12"}).retry_after_s is None


def test_a_server_says_its_own_by_status_or_by_its_words() -> None:
    def forbidden(code: str, message: str) -> Meaning:
        if code == "quota" and "month" in message:
            return Meaning(SourceRateLimited, "the month's quota of {name} is used up", retryable=True, pause_s=60.0)
        return Meaning(SourceForbidden, "no")

    own = {404: Meaning(SourceNotFound, "{name} has no index ({status})", "make it"), 403: forbidden}

    def said(status: int, body: object = None) -> SourceError:
        answer = HttpAnswer(status, {}, json.dumps(body).encode())
        return refusal(answer, own, name="Atlas", now=NOW)

    assert str(said(404)) == "Atlas has no index (404): make it"
    assert str(said(401)) == "the API key was refused: correct api_key of the connection"
    for body in ({"code": "quota", "message": "of the month"}, {"error": {"code": "quota", "message": "of the month"}}):
        error = said(403, body)
        assert (type(error), str(error), error.retry_after_s) == (
            SourceRateLimited, "the month's quota of Atlas is used up", 60.0,
        )  # fmt: skip
    assert isinstance(said(403, {"message": "of the month"}), SourceForbidden)


@pytest.mark.parametrize(
    "body",
    [b"SELECT secret", b'{"message": "SELECT secret"}', b'{"error": "SELECT secret"}', b'["SELECT secret"]'],
)
def test_a_servers_words_are_in_the_debug_log_alone(body: bytes, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    error = refused(500, body)
    assert "SELECT" not in repr(error) + repr(vars(error))
    assert [(one.levelname, "SELECT secret" in one.getMessage()) for one in caplog.records] == [("DEBUG", True)]


@pytest.mark.parametrize("body", [b"\xff\xfe", b"[" * 100_000, b"", b"null", b'{"error": null}', b'{"code": 7}'])
@pytest.mark.usefixtures("collector_off")
def test_no_body_makes_it_fail(body: bytes) -> None:
    assert isinstance(refused(400, body), SourceProtocolError)


ATLAS = Api(
    name="Atlas",
    root=below_host("search/v3"),
    key_header=KeyHeader("Atlas-Key"),
    max_bytes=1024 * 1024,
    statuses={
        404: Meaning(SourceNotFound, "{name} has no such index", "create it, or correct the manifest"),
        420: Meaning(SourceRateLimited, "{name} is calm for a while", "lower the load", retryable=True, pause_s=30.0),
    },
)
"""All there is to say of it."""

URL = "https://atlas.meridian-harbour.example/search/v3/hits"


def test_a_server_is_a_description() -> None:
    keys = iter(["first-key-0001", "second-key-0002", "second-key-0002"])
    base_url = "https://atlas.meridian-harbour.example"
    client = ApiClient(
        ATLAS, lambda: Connection.model_validate({"base_url": base_url, "api_key": next(keys)}), SystemClock()
    )
    access = client.access()

    def ask() -> object:
        return client.call(HttpCall("POST", "hits", {"q": "limit"}), access, lambda: 30.0).json()

    with respx.mock() as web:
        route = web.post(URL)
        route.mock(side_effect=[httpx.Response(401), httpx.Response(200, json={"hits": []})])
        assert ask() == {"hits": []}
        assert [one.request.headers["atlas-key"] for one in route.calls] == ["first-key-0001", "second-key-0002"]
        route.mock(side_effect=None, return_value=httpx.Response(404))
        with pytest.raises(SourceNotFound, match="Atlas has no such index: create it, or correct the manifest"):
            ask()
        route.mock(return_value=httpx.Response(420, headers={"retry-after": "5"}))
        with pytest.raises(SourceRateLimited, match="Atlas is calm") as raised:
            ask()
        assert raised.value.retry_after_s == 5.0
        route.mock(return_value=httpx.Response(200, content=b" " * (1024 * 1024 + 1)))
        with pytest.raises(SourceProtocolError, match="longer than 1 MiB"):
            ask()
    client.close()
