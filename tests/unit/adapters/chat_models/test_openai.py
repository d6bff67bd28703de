"""The OpenAI chat API in its documented form: what is sent, and what is taken from an answer."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.adapters.chat_models.openai import open_openai
from context_engine.adapters.model_access import ModelContext
from context_engine.core.models import ChatMessage, ChatPart, ChatUsage, FinishReason
from context_engine.errors import ChatModelError, ConfigError
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock

MESSAGES = [
    {"role": "system", "content": "Answer from the rules."},
    {"role": "user", "content": "Who approves a limit?"},
]


def test_the_body_of_a_stream(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    chat_server.will(chats.openai_stream("yes"))
    ask(model("openai"), max_tokens=7, temperature=0.5)
    (request,) = chat_server.requests
    assert request.path == "/v1/chat/completions"
    assert request.body == {
        "model": "small",
        "messages": MESSAGES,
        "max_tokens": 7,
        "temperature": 0.5,
        "stream": True,
        "stream_options": {"include_usage": True},
    }
    assert request.headers["authorization"] == "Bearer sk-Harbour0123456789Zq"
    assert request.headers["accept"] == "text/event-stream, application/json"


def test_the_body_for_servers_and_models_with_other_rules(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    chat_server.will(chats.openai_whole("yes"))
    options = {"limit_field": "max_completion_tokens", "send_temperature": False, "json_mode": True}
    ask(model("openai", stream=False, **options), max_tokens=7)
    ask(model("openai", include_usage=False), max_tokens=7)
    first, second = (request.body for request in chat_server.requests)
    assert first == {
        "model": "small",
        "messages": MESSAGES,
        "max_completion_tokens": 7,
        "response_format": {"type": "json_object"},
    }
    assert second == {"model": "small", "messages": MESSAGES, "max_tokens": 7, "temperature": 0.0, "stream": True}


def test_azure_has_its_version_in_the_address_and_its_key_in_a_header_of_its_own(chat_server: Any, chats: Any) -> None:
    base_url = f"{chat_server.url}/openai/deployments/house-gpt"
    connection = Connection.model_validate({"base_url": base_url, "api_key": "k-1", "api_key_header": "api-key"})
    context = ModelContext(connection=lambda _name: connection, clock=FixedClock())
    options = {"connection": "azure", "model": "house-gpt", "api_version": "2024-10-21"}
    chat = open_openai(options, context)
    chat_server.will([chats.event({"choices": [], "prompt_filter_results": []}), *chats.openai_stream("yes")])
    assert [part.text for part in chat.chat([ChatMessage("user", "Limit?")], max_tokens=5)] == ["yes", ""]
    (request,) = chat_server.requests
    assert request.path == "/openai/deployments/house-gpt/chat/completions?api-version=2024-10-21"
    assert request.headers["api-key"] == "k-1"
    assert "authorization" not in request.headers
    assert (chat.name, chat.model, chat.max_tokens) == ("openai:house-gpt", "house-gpt", 2048)


def test_a_server_that_does_not_stream_answers_at_once(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    chat_server.will(chats.openai_whole("The desk head.", finish="length"))
    expected = [ChatPart("The desk head."), ChatPart("", FinishReason.LENGTH, ChatUsage(10, 5))]
    assert ask(model("openai")) == expected


def test_tokens_from_the_cache_are_counted(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    usage = {"prompt_tokens": 100, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 64}}
    chat_server.will(chats.openai_stream("yes", usage=usage))
    assert ask(model("openai"))[-1].usage == ChatUsage(100, 5, 64)


@pytest.mark.parametrize(
    "usage",
    [
        None,
        [],
        {"prompt_tokens": 10},
        {"prompt_tokens": 10, "completion_tokens": 5, "prompt_tokens_details": {"cached_tokens": 11}},
    ],
)
def test_usage_of_another_form_is_estimated(model: Any, ask: Any, chat_server: Any, chats: Any, usage: Any) -> None:
    chat_server.will(chats.openai_stream("yes", usage=usage))
    assert ask(model("openai"))[-1].usage == ChatUsage(18, 1, estimated=True)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("stop", FinishReason.STOP),
        ("length", FinishReason.LENGTH),
        ("content_filter", FinishReason.FILTERED),
        ("tool_calls", FinishReason.OTHER),
    ],
)
def test_reasons_of_the_end(model: Any, ask: Any, chat_server: Any, chats: Any, reason: str, finish: Any) -> None:
    chat_server.will(chats.openai_stream("yes", finish=reason))
    assert ask(model("openai"))[-1].finish is finish


@pytest.mark.parametrize(
    ("code", "retryable", "calls"), [(400, False, 1), (429, True, 2), (500, True, 2), ("x", True, 2)]
)
def test_a_failure_told_with_status_200(
    model: Any, ask: Any, chat_server: Any, chats: Any, code: Any, retryable: bool, calls: int
) -> None:
    chat_server.will(chats.as_json({"error": {"code": code, "message": "no"}}))
    with pytest.raises(ChatModelError) as failed:
        ask(model("openai", attempts=2))
    assert failed.value.retryable is retryable
    assert len(chat_server.requests) == calls


@pytest.mark.parametrize(
    "wrong", [{}, [], {"choices": []}, {"choices": [{"message": {"content": ["yes"]}}]}, {"choices": [7]}]
)
def test_an_answer_of_another_form_is_an_error(model: Any, ask: Any, chat_server: Any, chats: Any, wrong: Any) -> None:
    chat_server.will(chats.as_json(wrong))
    with pytest.raises(ChatModelError, match="of another form than the chat API's") as failed:
        ask(model("openai"))
    assert failed.value.__context__ is None


def test_a_page_in_place_of_an_answer_is_named(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    chat_server.will(chats.Answer([b"<html>Sign in</html>"], kind="text/html"))
    with pytest.raises(ChatModelError, match=r"not JSON \(text/html"):
        ask(model("openai"))


def test_options_are_read_strictly() -> None:
    context = ModelContext(connection=lambda _name: None, clock=FixedClock())  # type: ignore[arg-type, return-value]
    with pytest.raises(ConfigError, match="Did you mean 'max_tokens'"):
        open_openai({"connection": "models", "model": "small", "max_token": 7}, context)
