"""Answers that a chat model writes, over HTTP: streamed, checked, bounded by cost, and stopped with the caller."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from fastapi.testclient import TestClient

from context_engine.wiring.audit_writers import close_writers
from tests.unit.service.small_bank import AUDITOR, CLERK, as_, client_of, small_bank

ASKED = {"query": "Within how many hours must a loss event be reported?", "domain": "ORM"}
TRUE = "A loss event must be reported within 24 hours [1]. "
FALSE = "A loss event must be reported within 72 hours [1]. "
PRICE = {
    "model": "bank-chat",
    "valid_from": "2020-01-01",
    "currency": "EUR",
    "input_per_million": 1,
    "output_per_million": 4,
}
Open = Callable[..., TestClient]


@pytest.fixture
def open_bank(chat_server: Any, tmp_path: Any) -> Iterator[Open]:
    """Opens the bank with a chat model behind the scripted server."""
    opened = []

    def start(**settings: Any) -> TestClient:
        (tmp_path / "config").mkdir(exist_ok=True)
        connection = {"chat": {"base_url": chat_server.url, "api_key": "sk-secret"}}
        (tmp_path / "config/connections.yaml").write_text(json.dumps(connection))
        model = {"chat_model": "openai", "chat_model_options": {"connection": "chat", "model": "bank-chat"}}
        deployment = small_bank(
            tmp_path,
            settings={"models": model, "audit": {"audit_mode": "required"}, **settings},
        )
        client = client_of(deployment)
        opened.append((client, deployment))
        return client.__enter__()

    yield start
    for client, deployment in opened:
        client.__exit__(None, None, None)
        deployment.close()
    close_writers()


def answer(client: TestClient, **fields: Any) -> Any:
    return client.post("/api/v1/rag/answer", json={**ASKED, **fields}, headers=as_(CLERK)).json()


def test_only_what_the_passages_support_is_shown(open_bank, chats, chat_server):
    chat_server.will(chats.openai_stream(TRUE[:20], TRUE[20:], FALSE, usage=(900, 40)))
    given = answer(open_bank())

    assert [sentence["text"] for sentence in given["sentences"]] == ["A loss event must be reported within 24 hours."]
    assert (given["withheld"], given["mode"], given["usage"]["input_tokens"]) == (1, "model", 900)
    assert "72 hours" not in json.dumps(given)


def test_the_model_sees_the_context_and_the_question(open_bank, chats, chat_server):
    chat_server.will(chats.openai_stream(TRUE))
    answer(open_bank())
    system, user = chat_server.requests[0].body["messages"]

    assert "A loss event must be reported within 24 hours." in system["content"]
    assert user == {"role": "user", "content": ASKED["query"]}


def test_the_cost_is_that_of_the_price_table(open_bank, chats, chat_server):
    chat_server.will(chats.openai_stream(TRUE, usage=(900, 40)))
    given = answer(open_bank(cost={"prices": [PRICE]}))
    # 900 · 1 EUR / 1,000,000 + 40 · 4 EUR / 1,000,000 = 0.0009 + 0.00016
    assert (given["usage"]["cost"], given["usage"]["currency"]) == ("0.00106", "EUR")


def test_tokens_and_cost_are_counted(open_bank, chats, chat_server):
    chat_server.will(chats.openai_stream(TRUE, FALSE, usage=(900, 40)))
    client = open_bank(cost={"prices": [PRICE]})
    answer(client)
    metrics = client.get("/metrics", headers=as_(AUDITOR)).text

    assert 'context_engine_answers_total{domain="ORM",mode="model",outcome="answered"} 1.0' in metrics
    assert 'context_engine_answer_sentences_total{domain="ORM",verdict="unsupported"} 1.0' in metrics
    assert 'context_engine_model_tokens_total{direction="input",domain="ORM",model="openai:bank-chat"} 900.0' in metrics
    assert "context_engine_model_cost_total" in metrics


def test_a_limit_refuses_before_the_call_and_names_what_it_would_have_cost(open_bank, chats, chat_server):
    chat_server.will(chats.openai_stream(TRUE))
    given = answer(open_bank(cost={"prices": [PRICE], "cost_limit_request": 0.0001}))

    assert given["refusal"]["code"] == "cost_limit"
    assert "EUR" in given["refusal"]["message"]
    assert chat_server.requests == []


def test_a_server_that_is_down_leaves_the_quotes_and_no_key(open_bank, chats, chat_server, caplog):
    chat_server.will(chats.as_json({"error": {"message": "overloaded"}}, status=400))
    given = answer(open_bank())

    assert given["mode"] == "extractive"
    assert given["sentences"]
    assert any("quoted" in warning for warning in given["warnings"])
    assert "sk-secret" not in json.dumps(given) + caplog.text


def test_sentences_are_streamed_as_they_are_checked(open_bank, chats, chat_server):
    chat_server.will(chats.openai_stream(TRUE, FALSE))
    client = open_bank()
    response = client.post("/api/v1/rag/answer", json={**ASKED, "stream": True}, headers=as_(CLERK))
    names = [line.removeprefix("event: ") for line in response.text.splitlines() if line.startswith("event: ")]

    assert names == ["start", "sentence", "end"]
    assert "72 hours" not in response.text


def test_a_turn_of_a_conversation_is_rewritten_by_the_model(open_bank, chats, chat_server):
    chat_server.will(
        chats.openai_stream("Within how many hours must a loss event be reported?", usage=(50, 12)),
        chats.openai_stream(TRUE, usage=(900, 40)),
    )
    history = [{"role": "user", "content": "What is a loss event?"}, {"role": "assistant", "content": "A loss."}]
    given = answer(open_bank(), query="And how fast must it be reported?", history=history)

    assert given["question"] == "Within how many hours must a loss event be reported?"
    assert given["asked"] == "And how fast must it be reported?"
    assert given["usage"]["input_tokens"] == 950
