"""What is said to a chat model, and what it answers: messages, parts of an answer, and the tokens used."""

from __future__ import annotations

from enum import StrEnum
from typing import Literal, NamedTuple


class ChatMessage(NamedTuple):
    """A message to a chat model."""

    role: Literal["system", "user", "assistant"]
    content: str


class ChatUsage(NamedTuple):
    """The tokens of one call.

    Attributes:
        input_tokens: of the messages, >= 0, with those from the server's cache.
        output_tokens: of the answer, >= 0, with those that the model thought in.
        cached_tokens: the part of the input that came from the server's cache, at a lower price.
        estimated: counted here, because the server gave no number, or one that cannot be.
    """

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    estimated: bool = False


class FinishReason(StrEnum):
    """Why an answer ended.

    STOP: the model had finished. LENGTH: it was cut at the limit of tokens. FILTERED: the server or the model refused
    to go on. CANCELLED: the caller did not want the rest. OTHER: another reason, or none given.
    """

    STOP = "stop"
    LENGTH = "length"
    FILTERED = "filtered"
    CANCELLED = "cancelled"
    OTHER = "other"


class ChatPart(NamedTuple):
    """A part of an answer: a piece of its text; or the last part, which has no text.

    Attributes:
        finish: why the answer ended; None before the last part.
        usage: the tokens of the call; None before the last part.
    """

    text: str = ""
    finish: FinishReason | None = None
    usage: ChatUsage | None = None
