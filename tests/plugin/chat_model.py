"""A stand-in for a chat model that is set up in Dify, as the plugin's process sees it: it streams what a test says."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

CHOICE = {
    "provider": "langgenius/openai/openai",
    "model": "gpt-4o-mini",
    "model_type": "llm",
    "mode": "chat",
    "completion_params": {"top_p": 0.5, "temperature": 0.9},
}
PRICE = dict.fromkeys(
    (
        "prompt_unit_price",
        "prompt_price_unit",
        "prompt_price",
        "completion_unit_price",
        "completion_price_unit",
        "completion_price",
        "total_price",
    ),
    "0",
)
USAGE = {"prompt_tokens": 100, "completion_tokens": 20, "total_tokens": 120, "currency": "USD", "latency": 0.1, **PRICE}


class StreamingModel:
    """Streams texts; an exception in the place of one is raised.

    Args:
        pieces: of each answer; `{24 hours}` stands for the label of the passage of the prompt that has these words.

    Attributes:
        asked: each request.
    """

    def __init__(self, *pieces: str | Exception) -> None:
        self.pieces, self.asked = pieces, list[Mapping[str, Any]]()

    def __call__(self, kind: str, request: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
        assert kind == "llm", kind
        self.asked.append(request)
        system = request["prompt_messages"][0]["content"]
        for piece in self.pieces:
            if isinstance(piece, Exception):
                raise piece
            yield chunk(re.sub(r"\{(.+?)\}", lambda found: label_of(found[1], system), piece))
        yield {**chunk(""), "delta": {**chunk("")["delta"], "usage": USAGE, "finish_reason": "stop"}}


def chunk(text: str) -> dict[str, Any]:
    """A piece of an answer as Dify sends it."""
    message = {"role": "assistant", "content": text, "tool_calls": []}
    return {"model": CHOICE["model"], "prompt_messages": [], "delta": {"index": 0, "message": message, "usage": None}}


def label_of(words: str, prompt: str) -> str:
    """The label of the passage that has some words."""
    before = prompt[: prompt.index(words)]
    return re.findall(r"(?m)^(?:### )?(\[\d+\]) \[Source", before)[-1]
