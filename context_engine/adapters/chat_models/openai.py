"""The OpenAI chat API: POST /v1/chat/completions, as vLLM, Ollama, Azure and most gateways speak it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Any, Final, Literal
from urllib.parse import quote

from pydantic import Field

from context_engine.adapters.chat_models.server_chat import (
    ACCEPT,
    ChatOptions,
    ChatRequest,
    ModelOptions,
    ServerChat,
    counted,
    mapping_at,
    open_chat,
    reported,
)
from context_engine.adapters.http import HttpCall
from context_engine.adapters.model_access import ModelContext, read_options
from context_engine.adapters.model_access.server import StreamLimits, model_api
from context_engine.core.models import ChatPart, ChatUsage, FinishReason
from context_engine.core.protocols import ChatModel

CHAT_API: Final = model_api("v1")
_FINISHES: Final = {
    "stop": FinishReason.STOP,
    "length": FinishReason.LENGTH,
    "content_filter": FinishReason.FILTERED,
}


class OpenAIChatOptions(ChatOptions):
    """Options of the chat model `openai`.

    Attributes:
        api_version: the date that Azure expects as `api-version`, for addresses of its deployments.
        include_usage: ask a stream for the tokens used; off for a server that refuses `stream_options`.
        limit_field: the field of the limit of tokens; newer models of OpenAI know `max_completion_tokens` alone.
        send_temperature: off for models that refuse a temperature.
        json_mode: request a JSON object.
    """

    api_version: Annotated[str, Field(min_length=1)] | None = None
    include_usage: bool = True
    limit_field: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    send_temperature: bool = True
    json_mode: bool = False


class OpenAIWire:
    """How the API writes questions and answers."""

    def __init__(self, options: OpenAIChatOptions) -> None:
        self._options = options

    def call(self, request: ChatRequest) -> HttpCall:
        """Return the call of a question."""
        options = self._options
        body: dict[str, Any] = {
            "model": options.model,
            "messages": [message._asdict() for message in request.messages],
            options.limit_field: request.max_tokens,
        }
        if options.send_temperature:
            body["temperature"] = request.temperature
        if options.json_mode:
            body["response_format"] = {"type": "json_object"}
        if options.stream:
            body["stream"] = True
            body |= {"stream_options": {"include_usage": True}} if options.include_usage else {}
        version = f"?api-version={quote(options.api_version, safe='')}" if options.api_version else ""
        return HttpCall("POST", f"chat/completions{version}", body, ACCEPT if options.stream else {})

    def streamed(self, events: Iterable[Mapping[str, Any]]) -> Iterator[ChatPart]:
        """Yield what the events tell; the last ones come after the reason of the end and carry the usage."""
        for event in events:
            _refuse_error(event)
            for choice in event["choices"][:1]:
                yield ChatPart(_text(choice.get("delta") or {}), _finish(choice.get("finish_reason")))
            yield ChatPart(usage=_usage(event))

    def whole(self, answer: Mapping[str, Any]) -> ChatPart:
        """Return an answer that came at once."""
        _refuse_error(answer)
        choice = answer["choices"][0]
        finish = _finish(choice.get("finish_reason")) or FinishReason.OTHER
        return ChatPart(_text(choice["message"]), finish, _usage(answer))


def _text(message: Mapping[str, Any]) -> str:
    text = message.get("content") or ""
    if not isinstance(text, str):
        raise TypeError("content is no text")
    return text


def _finish(reason: str | None) -> FinishReason | None:
    return None if reason is None else _FINISHES.get(reason, FinishReason.OTHER)


def _usage(answer: Mapping[str, Any]) -> ChatUsage | None:
    usage = mapping_at(answer, "usage")
    cached = mapping_at(usage, "prompt_tokens_details").get("cached_tokens") or 0
    return counted([usage.get("prompt_tokens")], usage.get("completion_tokens"), cached)


def _refuse_error(event: Mapping[str, Any]) -> None:
    """Raise the failure that a server reports with status 200, within a stream for example."""
    error = event.get("error")
    if error:
        code = error.get("code") if isinstance(error, Mapping) else None
        raise reported(error, may_pass=not isinstance(code, int) or code == 429 or code >= 500)


def open_openai(options: Mapping[str, Any], context: ModelContext) -> ChatModel:
    """Return a chat model behind the OpenAI chat API; nothing is sent yet."""
    return _open(read_options(OpenAIChatOptions, options), context, label="chat model openai")


class JsonModelOptions(ModelOptions):
    """Options of an adapter that asks a model for JSON, in addition to those of the model.

    Attributes:
        json_mode: request a JSON object; off for a server that does not know `response_format`.
        max_tokens: most tokens of an answer, with those that the model thinks in.
    """

    json_mode: bool = True
    max_tokens: Annotated[int, Field(ge=16, le=32_000)] = 2048


def open_json_model(options: JsonModelOptions, context: ModelContext, *, label: str, attempts: int) -> ServerChat:
    """Return a model that answers at once, within the connection's `timeout_s`; nothing is sent yet.

    Args:
        label: begins the message of every error.
        attempts: calls for one answer.

    Raises:
        ConfigError: the connection does not exist or cannot be used.
    """
    chosen = OpenAIChatOptions(
        connection=options.connection,
        model=options.model,
        json_mode=options.json_mode,
        max_tokens=options.max_tokens,
        attempts=attempts,
        stream=False,
    )
    return _open(chosen, context, label=label, limits=StreamLimits())


def _open(
    options: OpenAIChatOptions, context: ModelContext, *, label: str, limits: StreamLimits | None = None
) -> ServerChat:
    name = f"openai:{options.model}"
    return open_chat(OpenAIWire(options), CHAT_API, options, context, label=label, name=name, limits=limits)
