"""The transport cases: what goes out, what is followed and kept, what is tried again and what never."""

from __future__ import annotations

import json
import logging
from itertools import count

import httpx
import pytest
import respx

from context_engine.adapters.http.api import MAX_BYTES
from context_engine.adapters.http.transport import make_client
from context_engine.core.engine.search_plan import SystemClock
from context_engine.errors import (
    ConfigError,
    SourceAuthError,
    SourceError,
    SourceProtocolError,
    SourceRateLimited,
    SourceTimeout,
    SourceUnavailable,
)
from context_engine.settings.connections import Connection

BASE = "https://dify.meridian-harbour.example"
ID = "b644b4ec-c827-43bf-b869-905045e19833"
RECORD = {
    "segment": {"id": "s1", "content": "The limit.", "document": {"name": "L", "doc_metadata": None}},
    "child_chunks": None,
    "score": 0.5,
}
ANSWER = {"query": {"content": "q"}, "records": [RECORD]}
INFO = {"id": ID, "name": "D", "indexing_technique": "high_quality", "total_available_documents": 1}


@pytest.fixture
def dify():
    with respx.mock(base_url=f"{BASE}/v1") as mock:
        mock.get(f"/datasets/{ID}").respond(json=INFO)
        mock.post(f"/datasets/{ID}/retrieve", name="retrieve").respond(json=ANSWER)
        yield mock


@pytest.fixture
def quick(make_source, monkeypatch):
    """A source over the real clock whose pauses between tries take no time."""
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda seconds: None)
    return lambda **fields: make_source(BASE, ID, own_clock=SystemClock(), **fields)


def test_what_goes_out(dify, quick, ask):
    source = quick(connection={"api_key": "dataset-abc"})
    assert [chunk.content for chunk in ask(source, "the  limit").chunks] == ["The limit."]
    (lookup, search) = (call.request for call in dify.calls)
    assert (lookup.method, str(lookup.url)) == ("GET", f"{BASE}/v1/datasets/{ID}")
    assert (search.method, str(search.url)) == ("POST", f"{BASE}/v1/datasets/{ID}/retrieve")
    assert search.headers["authorization"] == "Bearer dataset-abc"
    assert search.headers["accept-encoding"] == "identity"
    assert json.loads(search.content) == {
        "query": "the  limit",
        "retrieval_model": {
            "search_method": "semantic_search", "reranking_enable": False, "top_k": 10,
            "score_threshold_enabled": False,
        },
    }  # fmt: skip


@pytest.mark.parametrize("base", [BASE, f"{BASE}/", f"{BASE}/v1", f"{BASE}/v1/"])
def test_the_base_url_may_be_given_with_its_version(base, dify, make_source, ask):
    assert len(ask(make_source(base, ID, own_clock=SystemClock())).chunks) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_redirects_are_not_followed(status, dify, quick, ask):
    route = dify["retrieve"].respond(status, headers={"location": "https://elsewhere.example/"})
    with pytest.raises(SourceProtocolError, match="redirect"):
        ask(quick())
    assert route.call_count == 1


def test_no_cookie_is_kept(dify, quick, ask):
    dify["retrieve"].respond(json=ANSWER, headers={"set-cookie": "x-token=abc; Path=/"})
    source = quick(cache_ttl_s=0)
    ask(source)
    ask(source)
    assert all("cookie" not in call.request.headers for call in dify.calls)


@pytest.mark.parametrize(
    "fault",
    [
        httpx.ConnectError("refused by db.internal"),
        httpx.ConnectTimeout("x"),
        httpx.ReadTimeout("x"),
        httpx.ReadError("x"),
        httpx.RemoteProtocolError("x"),
        httpx.ProxyError("x"),
        httpx.Response(500, json={"code": "internal_server_error", "message": "(psycopg2) db.internal"}),
        httpx.Response(502, html="<h1>Bad Gateway</h1>"),
        httpx.Response(503),
        httpx.Response(504),
        httpx.Response(429),
        httpx.Response(400, json={"code": "invalid_param", "message": "Failed to request plugin daemon, url: x"}),
        httpx.Response(400, json={"code": "invalid_param", "message": "Connection refused\n\tIs the server running"}),
    ],
)
def test_outages_are_tried_again(fault, dify, quick, ask):
    route = dify["retrieve"]
    route.side_effect = [fault, fault, httpx.Response(200, json=ANSWER)]
    assert len(ask(quick()).chunks) == 1
    assert route.call_count == 3


@pytest.mark.parametrize("fault", [httpx.ConnectError("refused by db.internal"), httpx.ReadTimeout("db.internal")])
def test_after_the_last_try_the_error_is_ours_and_holds_no_request(fault, dify, quick, ask):
    dify["retrieve"].side_effect = fault
    with pytest.raises((SourceUnavailable, SourceTimeout)) as raised:
        ask(quick(attempts=2))
    assert dify["retrieve"].call_count == 2
    error: BaseException | None = raised.value
    assert (error.source_id, error.retryable) == ("sops", True)
    assert "db.internal" not in str(error)
    while error is not None:
        assert not isinstance(error, httpx.HTTPError)
        error = error.__cause__ or error.__context__


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (400, {"code": "invalid_param", "message": "'bm25' is not a valid RetrievalMethod"}),
        (400, {"code": "provider_not_initialize", "message": "No model"}),
        (401, {"code": "unauthorized", "message": "Access token is invalid"}),
        (403, {"code": "forbidden", "message": "Dataset api access is not enabled."}),
        (403, {"code": "forbidden", "message": "Sorry, you have reached the knowledge base request rate limit"}),
        (404, {"code": "not_found", "message": "Dataset not found."}),
        (405, {}),
        (415, {}),
        (200, {"records": None}),
        (204, {}),
    ],
)
def test_what_will_not_pass_is_not_tried_again(status, body, dify, quick, ask):
    route = dify["retrieve"].respond(status, json=body)
    with pytest.raises(SourceError):
        ask(quick())
    assert route.call_count == 1


def test_retry_after_is_honoured(dify, make_source, ask, monkeypatch):
    pauses = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    dify["retrieve"].side_effect = [httpx.Response(429, headers={"retry-after": "2"}), httpx.Response(200, json=ANSWER)]
    assert len(ask(make_source(BASE, ID, own_clock=SystemClock())).chunks) == 1
    assert pauses == [2.0]


@pytest.mark.parametrize("header", ["3600", "Mon, 02 Mar 2026 11:00:00 GMT"])
def test_a_pause_longer_than_the_time_there_is_is_not_waited_out(header, dify, make_source, ask):
    dify["retrieve"].respond(429, headers={"retry-after": header})
    with pytest.raises(SourceRateLimited) as raised:
        ask(make_source(BASE, ID))  # the clock stands at 2026-03-02 10:00
    assert raised.value.retry_after_s == 3600.0
    assert dify["retrieve"].call_count == 1


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ({"html": "<!doctype html><title>Sign in</title>"}, "not JSON (text/html"),
        ({"text": ""}, "not JSON"),
        ({"text": '{"records": ['}, "not JSON"),
        ({"text": "[" * 100_000}, "not JSON"),
        ({"content": b'{"records": "\xff"}'}, "not JSON"),
        ({"json": ANSWER, "headers": {"content-encoding": "br"}}, "compressed"),
        ({"json": ANSWER, "headers": {"content-length": str(MAX_BYTES + 1)}}, "longer than 16 MiB"),
        ({"content": b" " * (MAX_BYTES + 1)}, "longer than 16 MiB"),
    ],
)
@pytest.mark.usefixtures("collector_off")
def test_bodies_that_are_no_answer(answer, words, dify, quick, ask):
    dify["retrieve"].respond(200, **answer)
    with pytest.raises(SourceProtocolError) as raised:
        ask(quick())
    assert words in str(raised.value)
    assert raised.value.source_id == "sops"


def test_a_key_that_was_changed_is_read_again_after_a_401(dify, quick, ask):
    keys, reads = ["dataset-old", "dataset-old", "dataset-new"], count()
    source = quick(connection=lambda: Connection(base_url=BASE, api_key=keys[min(next(reads), 2)]))
    asked = []

    def answer(request):
        asked.append(request.headers["authorization"])
        return httpx.Response(200, json=ANSWER) if asked[-1].endswith("new") else httpx.Response(401, json={})

    dify["retrieve"].side_effect = answer
    with pytest.raises(SourceAuthError):
        ask(source)  # read twice, the same
    assert len(ask(source).chunks) == 1
    assert asked == ["Bearer dataset-old", "Bearer dataset-new"]


def test_a_key_file_that_has_gone_is_an_authorisation_failure(dify, quick, ask):
    reads = count()

    def connect():
        if next(reads) > 0:
            raise ConfigError("there is no file /run/secrets/key")
        return Connection(base_url=BASE, api_key="dataset-old")

    dify["retrieve"].respond(401, json={})
    with pytest.raises(SourceAuthError, match="reading it again failed"):
        ask(quick(connection=connect))


def test_a_connection_that_cannot_be_read_is_a_source_that_failed(quick, ask):
    def connect():
        raise ConfigError("variable KEY is not set")

    with pytest.raises(SourceUnavailable, match="variable KEY is not set") as raised:
        ask(quick(connection=connect))
    assert raised.value.source_id == "sops"


def test_certificates(tmp_path):
    bad = tmp_path / "ca.pem"
    bad.write_text("no certificate", encoding="utf-8")
    for fields in ({"ca_bundle": bad}, {"client_certificate": bad}):
        with pytest.raises(ConfigError, match="certificate file"):
            make_client(Connection(base_url=BASE, **fields))


def test_a_certificate_that_cannot_be_used_is_a_source_that_failed(tmp_path, quick, ask):
    bad = tmp_path / "ca.pem"
    bad.write_text("no certificate", encoding="utf-8")
    with pytest.raises(SourceUnavailable, match="certificate file"):
        ask(quick(connection={"ca_bundle": bad}))


def test_difys_words_are_in_the_debug_log_alone(dify, quick, ask, caplog):
    caplog.set_level(logging.DEBUG)
    dify["retrieve"].respond(500, json={"code": "internal_server_error", "message": "(psycopg2) at db.internal"})
    with pytest.raises(SourceUnavailable) as raised:
        ask(quick(attempts=1))
    assert "db.internal" not in str(raised.value)
    said = [record for record in caplog.records if "db.internal" in record.getMessage()]
    assert [(record.name, record.levelname) for record in said] == [("context_engine.adapters.http.api", "DEBUG")]
