"""The Anthropic messages API: POST /v1/messages."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final

from pydantic import Field

from context_engine.adapters.chat_models.server_chat import (
    ACCEPT,
    ChatOptions,
    ChatRequest,
    counted,
    mapping_at,
    open_chat,
    reported,
)
from context_engine.adapters.http import HttpCall, KeyHeader, Meaning
from context_engine.adapters.model_access import ModelContext, read_options
from context_engine.adapters.model_access.server import model_api
from context_engine.core.models import ChatPart, ChatUsage, FinishReason
from context_engine.core.protocols import ChatModel
from context_engine.errors import SourceError, SourceUnavailable

_OVERLOADED: Final = Meaning(SourceUnavailable, "{name} is overloaded (529)", "ask again later", retryable=True)
MESSAGES_API: Final = model_api("v1", key_header=KeyHeader("x-api-key"), more_statuses={529: _OVERLOADED})
_FINISHES: Final = {
    "end_turn": FinishReason.STOP,
    "stop_sequence": FinishReason.STOP,
    "max_tokens": FinishReason.LENGTH,
    "model_context_window_exceeded": FinishReason.LENGTH,
    "refusal": FinishReason.FILTERED,
}
_MAY_PASS: Final = frozenset({"overloaded_error", "api_error", "rate_limit_error", "timeout_error"})


class AnthropicOptions(ChatOptions):
    """Options of the chat model `anthropic`.

    Attributes:
        api_version: sent as `anthropic-version`.
        send_temperature: on for models that accept a temperature; newer ones, and newer versions of the API, refuse it.
    """

    api_version: Annotated[str, Field(pattern=r"^\d{4}-\d{2}-\d{2}$")] = "2023-06-01"
    send_temperature: bool = False


class AnthropicWire:
    """How the API writes questions and answers."""

    def __init__(self, options: AnthropicOptions) -> None:
        self._options = options

    def call(self, request: ChatRequest) -> HttpCall:
        """Return the call of a question; the system's messages stand apart from the others."""
        options = self._options
        system = [message.content for message in request.messages if message.role == "system"]
        body: dict[str, Any] = {
            "model": options.model,
            "max_tokens": request.max_tokens,
            "messages": [message._asdict() for message in request.messages if message.role != "system"],
        }
        if system:
            body["system"] = "\n\n".join(system)
        if options.send_temperature:
            body["temperature"] = request.temperature
        if options.stream:
            body["stream"] = True
        accept = ACCEPT if options.stream else {}
        return HttpCall("POST", "messages", body, {"anthropic-version": options.api_version, **accept})

    def streamed(self, events: Iterable[Mapping[str, Any]]) -> Iterator[ChatPart]:
        """Yield what the events tell. Counts of tokens come in several of them, and a later one replaces an earlier."""
        used: dict[str, Any] = {}
        for event in events:
            kind = event["type"]
            if kind == "error":
                raise _refused(event["error"])
            if kind == "message_stop":
                return
            if kind == "message_start":
                used |= mapping_at(event["message"], "usage")
            elif kind == "content_block_delta" and event["delta"]["type"] == "text_delta":
                yield ChatPart(event["delta"]["text"])
            elif kind == "message_delta":
                used |= {key: count for key, count in mapping_at(event, "usage").items() if count}
                yield ChatPart("", _finish(event["delta"].get("stop_reason")), _usage(used))

    def whole(self, answer: Mapping[str, Any]) -> ChatPart:
        """Return an answer that came at once."""
        if answer.get("type") == "error":
            raise _refused(answer["error"])
        text = "".join(block["text"] for block in answer["content"] if block["type"] == "text")
        return ChatPart(
            text, _finish(answer.get("stop_reason")) or FinishReason.OTHER, _usage(mapping_at(answer, "usage"))
        )


def _finish(reason: str | None) -> FinishReason | None:
    return None if reason is None else _FINISHES.get(reason, FinishReason.OTHER)


def _usage(usage: Mapping[str, Any]) -> ChatUsage | None:
    """Return the tokens used; the API counts those read from its cache, and those written to it, apart."""
    kept, cached = (usage.get(f"cache_{kind}_input_tokens") or 0 for kind in ("creation", "read"))
    return counted([usage.get("input_tokens"), kept, cached], usage.get("output_tokens"), cached)


def _refused(error: Mapping[str, Any]) -> SourceError:
    return reported(error, may_pass=error.get("type") in _MAY_PASS)


def open_anthropic(options: Mapping[str, Any], context: ModelContext) -> ChatModel:
    """Return a chat model behind the Anthropic messages API; nothing is sent yet."""
    chosen = read_options(AnthropicOptions, options)
    name = f"anthropic:{chosen.model}"
    return open_chat(AnthropicWire(chosen), MESSAGES_API, chosen, context, label="chat model anthropic", name=name)
