"""A language model behind the OpenAI chat API, which many servers speak: POST /v1/chat/completions."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final

from pydantic import Field

from context_engine.adapters.model_access.options import Options
from context_engine.adapters.model_access.server import ModelServer, model_api

CHAT_API: Final = model_api("v1")


class ChatOptions(Options):
    """Which model is asked.

    Attributes:
        connection: name of the connection.
        model: the server's name for the model.
        json_mode: ask the server for a JSON object; off for one that does not know `response_format`.
    """

    connection: Annotated[str, Field(min_length=1)]
    model: Annotated[str, Field(min_length=1)]
    json_mode: bool = True


def ask_json(server: ModelServer, options: ChatOptions, rules: str, text: str) -> Any:
    """Return the JSON value that a model answers with.

    Args:
        server: asked; its failures are its own errors.
        options: the model.
        rules: what to do, the system's message.
        text: what to do it with, the user's message.

    Raises:
        ValueError: the answer is no JSON, or has an object with one key twice.
    """
    messages = [{"role": "system", "content": rules}, {"role": "user", "content": text}]
    body: dict[str, Any] = {"model": options.model, "messages": messages, "temperature": 0}
    if options.json_mode:
        body["response_format"] = {"type": "json_object"}
    answer = server.post("chat/completions", body)
    try:
        return json.loads(answer["choices"][0]["message"]["content"], object_pairs_hook=_no_key_twice)
    except (KeyError, IndexError, TypeError, RecursionError):
        raise ValueError("no message with JSON in it") from None


def _no_key_twice(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("an object with one key twice")
    return found
