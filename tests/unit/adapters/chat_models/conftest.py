"""Both APIs of chat models: what one is held to, the other is too."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import pytest

from context_engine.adapters.chat_models.anthropic import MESSAGES_API, AnthropicOptions, AnthropicWire
from context_engine.adapters.chat_models.openai import CHAT_API, OpenAIChatOptions, OpenAIWire
from context_engine.adapters.chat_models.server_chat import ServerChat
from context_engine.adapters.model_access.server import ModelServer
from context_engine.core.models import ChatMessage, ChatPart
from context_engine.errors import ChatModelError
from context_engine.settings.connections import Connection
from context_engine.testing import FixedClock

KEY = "sk-Harbour0123456789Zq"
QUESTION = (ChatMessage("system", "Answer from the rules."), ChatMessage("user", "Who approves a limit?"))
"""4 + 5 and 4 + 5 tokens by our own count."""


class SkippingClock(FixedClock):
    """Its seconds pass, and those of a pause at once."""

    def __init__(self) -> None:
        super().__init__()
        self.slept = list[float]()

    def monotonic(self) -> float:
        return time.monotonic() + sum(self.slept)

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)


class Spoken(NamedTuple):
    """An API as the server speaks it: a piece of text, a whole stream, and a failure within one."""

    name: str
    piece: Callable[[str], bytes]
    stream: Callable[..., list[Any]]
    failure: Callable[..., bytes]


@pytest.fixture(params=["openai", "anthropic"])
def spoken(request: pytest.FixtureRequest, chats: Any) -> Spoken:
    """Each API in turn."""
    if request.param == "openai":
        return Spoken(
            "openai", chats.openai_chunk, chats.openai_stream, lambda words: chats.event({"error": {"message": words}})
        )

    def piece(text: str) -> bytes:
        delta = {"type": "text_delta", "text": text}
        return chats.anthropic_event("content_block_delta", index=0, delta=delta)  # type: ignore[no-any-return]

    def failure(words: str) -> bytes:
        error = {"type": "overloaded_error", "message": words}
        return chats.anthropic_event("error", error=error)  # type: ignore[no-any-return]

    return Spoken("anthropic", piece, chats.anthropic_stream, failure)


@pytest.fixture
def clock() -> SkippingClock:
    return SkippingClock()


@pytest.fixture
def model(chat_server: Any, clock: SkippingClock) -> Iterator[Callable[..., ServerChat]]:
    """(name of the API, options) -> its model at the server; its answers are cut at `max_bytes`."""
    opened: list[ModelServer] = []

    def make(name: str, *, max_bytes: int = 1024 * 1024, **options: Any) -> ServerChat:
        connection = Connection.model_validate({"base_url": chat_server.url, "api_key": KEY})
        values = {"connection": "models", "model": "small", **options}
        chosen: Any = (OpenAIChatOptions if name == "openai" else AnthropicOptions).model_validate(values)
        wire: Any = (OpenAIWire if name == "openai" else AnthropicWire)(chosen)

        def error(problem: str, later: bool) -> ChatModelError:
            return ChatModelError(problem, retryable=later)

        api = replace(CHAT_API if name == "openai" else MESSAGES_API, max_bytes=max_bytes)
        server = ModelServer(api, lambda: connection, error, clock=clock, attempts=chosen.attempts, sleep=clock.sleep)
        opened.append(server)
        return ServerChat(f"{name}:small", chosen, wire, server, chosen.limits)

    yield make
    for server in opened:
        server.close()


@pytest.fixture
def ask() -> Callable[..., list[ChatPart]]:
    """(model, max_tokens) -> the parts of its answer."""

    def asked(chat: ServerChat, max_tokens: int = 50, **more: Any) -> list[ChatPart]:
        return list(chat.chat(QUESTION, max_tokens=max_tokens, **more))

    return asked
