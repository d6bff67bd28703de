"""A server as knowledge: the request sent, the answer read, and its errors by their own classes."""

from __future__ import annotations

import copy
import json
import pickle

import httpx
import pytest
import respx

from context_engine import errors
from context_engine.apps.integrations.knowledge import Server, ServerUnreachable
from context_engine.errors import (
    AllSourcesFailed,
    ConfigError,
    ContextEngineError,
    NotAuthenticated,
    NotPermitted,
    Overloaded,
    UnknownDomain,
)
from context_engine.service.contract.rag import RAGQueryRequest

from .test_passages import ANSWER, answer

URL = "https://search.bank.example"
TOKEN = "fictitious-token-of-a-test-0123456789"
QUESTION = RAGQueryRequest(query="loss", top_k=3)
KINDS = {kind.code for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ContextEngineError)}
"""The codes of the published errors."""


@pytest.fixture
def route():
    with respx.mock(assert_all_called=False) as web:
        yield web.post(f"{URL}/api/v1/rag/query")


@pytest.fixture
def server():
    server = Server(URL, TOKEN, timeout_s=5.0)
    yield server
    server.close()


def test_a_question_is_sent_with_the_token_and_only_the_fields_that_are_set(route, server):
    route.respond(json=ANSWER)
    assert server.ask(QUESTION) == answer()
    sent = route.calls.last.request
    assert json.loads(sent.content) == {"query": "loss", "top_k": 3}
    assert sent.headers["authorization"] == f"Bearer {TOKEN}"


def test_a_copy_has_the_token_and_opens_connections_of_its_own(route, server):
    route.respond(json=ANSWER)
    server.ask(QUESTION)
    for copied in (copy.deepcopy(server), pickle.loads(pickle.dumps(server))):
        assert copied.ask(QUESTION) == answer()
        copied.close()
    assert TOKEN not in repr(server) + repr(vars(server))


@pytest.mark.parametrize(
    ("status", "code", "kind"),
    [
        (404, "unknown_domain", UnknownDomain),
        (403, "not_permitted", NotPermitted),
        (502, "all_sources_failed", AllSourcesFailed),
        (401, "not_authenticated", NotAuthenticated),
    ],
)
def test_an_error_of_the_server_is_raised_by_its_own_class(route, server, status, code, kind):
    problem = {"status": status, "code": code, "detail": "what went wrong", "instance": "request-7"}
    route.respond(status, json=problem)
    with pytest.raises(kind) as error:
        server.ask(QUESTION)
    assert type(error.value) is kind and error.value.code == code
    assert ("request-7" in str(error.value)) == (status == 502)


def test_a_busy_server_is_asked_again(route, server):
    busy = httpx.Response(503, json={"code": "overloaded", "detail": "60 searches wait"}, headers={"retry-after": "0"})
    route.side_effect = [busy, httpx.Response(200, json=ANSWER)]
    assert server.ask(QUESTION) == answer()


def test_a_server_that_stays_busy_says_so(route):
    route.respond(503, json={"code": "overloaded", "detail": "60 searches wait"}, headers={"retry-after": "9"})
    with pytest.raises(Overloaded, match="is busy: 60 searches wait"):
        Server(URL, TOKEN, timeout_s=0.5).ask(QUESTION)


@pytest.mark.parametrize(
    "reply", [httpx.Response(200, text="<html>Sign in</html>"), httpx.Response(200, json={}), httpx.Response(418)]
)
def test_an_answer_of_something_else_is_named(route, server, reply):
    route.mock(return_value=reply)
    with pytest.raises(ServerUnreachable, match="not as a context-engine server"):
        server.ask(QUESTION)


def test_a_server_that_cannot_be_reached_is_named_and_the_token_is_not(route):
    route.mock(side_effect=httpx.ConnectError("refused"))
    with pytest.raises(ServerUnreachable, match=f"the server {URL} gave no answer") as error:
        Server(URL, TOKEN, timeout_s=0.3).ask(QUESTION)
    assert TOKEN not in str(error.value)


def test_an_address_that_is_none_is_refused_by_its_name():
    with pytest.raises(ConfigError, match="server_url"):
        Server("search.bank.example")


@pytest.mark.parametrize("code", sorted(KINDS))
def test_an_error_of_any_class_can_be_read_and_pickled(route, server, code):
    detail = {"code": code, "detail": "the reason", "status": 400}
    route.mock(return_value=httpx.Response(400, json=detail, headers={"Content-Type": "application/problem+json"}))
    with pytest.raises(ContextEngineError) as caught:
        server.ask(QUESTION)
    error = caught.value
    assert "the reason" in str(error) and error.to_dict()["message"] == str(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)
