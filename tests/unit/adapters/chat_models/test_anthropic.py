"""The Anthropic messages API in its documented form: what is sent, and what is taken from an answer."""

from __future__ import annotations

from typing import Any

import pytest

from context_engine.core.models import ChatPart, ChatUsage, FinishReason
from context_engine.errors import ChatModelError


def test_the_body_of_a_stream(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    chat_server.will(chats.anthropic_stream("yes"))
    ask(model("anthropic"), max_tokens=7)
    (request,) = chat_server.requests
    assert request.path == "/v1/messages"
    assert request.body == {
        "model": "small",
        "max_tokens": 7,
        "system": "Answer from the rules.",
        "messages": [{"role": "user", "content": "Who approves a limit?"}],
        "stream": True,
    }
    headers = request.headers
    assert (headers["x-api-key"], headers["anthropic-version"]) == ("sk-Harbour0123456789Zq", "2023-06-01")
    assert "authorization" not in headers


def test_a_temperature_is_sent_to_models_that_accept_one(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    chat_server.will(chats.anthropic_stream("yes"))
    ask(model("anthropic", send_temperature=True), temperature=0.25)
    ask(model("anthropic", api_version="2026-10-21"), temperature=0.25)
    first, second = chat_server.requests
    assert first.body["temperature"] == 0.25
    assert "temperature" not in second.body
    assert second.headers["anthropic-version"] == "2026-10-21"


def test_an_answer_at_once(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    blocks = [
        {"type": "thinking", "thinking": "..."},
        {"type": "text", "text": "The "},
        {"type": "text", "text": "desk."},
    ]
    usage = {"input_tokens": 10, "output_tokens": 5}
    chat_server.will(chats.as_json({"type": "message", "content": blocks, "stop_reason": "end_turn", "usage": usage}))
    assert ask(model("anthropic", stream=False)) == [
        ChatPart("The desk."),
        ChatPart("", FinishReason.STOP, ChatUsage(10, 5)),
    ]
    assert "stream" not in chat_server.requests[0].body


def test_what_the_model_thinks_is_no_text(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    pieces = chats.anthropic_stream("yes")
    delta = {"type": "thinking_delta", "thinking": "Is it?"}
    pieces.insert(2, chats.anthropic_event("content_block_delta", index=0, delta=delta))
    chat_server.will(pieces)
    assert [part.text for part in ask(model("anthropic"))] == ["yes", ""]


def test_the_cache_is_part_of_the_input(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    """10 new tokens, 20 written to the cache and 70 read from it."""
    usage = {"input_tokens": 10, "cache_creation_input_tokens": 20, "cache_read_input_tokens": 70, "output_tokens": 1}
    start = chats.anthropic_event("message_start", message={"content": [], "usage": usage})
    chat_server.will([start, *chats.anthropic_stream("yes")[1:]])
    assert ask(model("anthropic"))[-1].usage == ChatUsage(100, 5, 70)


def test_a_gateway_that_counts_the_input_at_the_end(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    pieces = chats.anthropic_stream("yes", usage=(0, 5))
    final = {"input_tokens": 12, "output_tokens": 5}
    pieces[-2] = chats.anthropic_event("message_delta", delta={"stop_reason": "end_turn"}, usage=final)
    chat_server.will(pieces)
    assert ask(model("anthropic"))[-1].usage == ChatUsage(12, 5)


@pytest.mark.parametrize(
    ("reason", "finish"),
    [
        ("end_turn", FinishReason.STOP),
        ("stop_sequence", FinishReason.STOP),
        ("max_tokens", FinishReason.LENGTH),
        ("model_context_window_exceeded", FinishReason.LENGTH),
        ("refusal", FinishReason.FILTERED),
        ("pause_turn", FinishReason.OTHER),
    ],
)
def test_reasons_of_the_end(model: Any, ask: Any, chat_server: Any, chats: Any, reason: str, finish: Any) -> None:
    chat_server.will(chats.anthropic_stream("yes", stop=reason))
    assert ask(model("anthropic"))[-1].finish is finish


def test_an_overloaded_server_is_named(model: Any, ask: Any, chat_server: Any, chats: Any) -> None:
    error = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
    chat_server.will(chats.as_json(error, 529))
    with pytest.raises(ChatModelError, match=r"is overloaded \(529\)") as failed:
        ask(model("anthropic", attempts=2))
    assert failed.value.retryable
    assert len(chat_server.requests) == 2


def test_a_request_that_is_refused_within_a_stream_is_not_repeated(
    model: Any, ask: Any, chat_server: Any, chats: Any
) -> None:
    chat_server.will([chats.anthropic_event("error", error={"type": "invalid_request_error", "message": "no"})])
    with pytest.raises(ChatModelError, match="refused to go on"):
        ask(model("anthropic"))
    assert len(chat_server.requests) == 1


@pytest.mark.parametrize("wrong", [{}, [], {"content": 7}, {"content": [{"type": "text"}]}])
def test_an_answer_of_another_form_is_an_error(model: Any, ask: Any, chat_server: Any, chats: Any, wrong: Any) -> None:
    chat_server.will(chats.as_json(wrong))
    with pytest.raises(ChatModelError, match="of another form than the chat API's"):
        ask(model("anthropic", stream=False))
