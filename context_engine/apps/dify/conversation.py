"""The turns of a conversation, from the field `history`: lines, JSON messages, or a number of turns without words."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from context_engine.apps.dify.dify_json import plain_text
from context_engine.apps.dify.form import GIVEN, text_field
from context_engine.core.models import ChatMessage

_Role = Literal["user", "assistant"]
_ROLES: Final[Mapping[str, _Role]] = {
    "user": "user",
    "human": "user",
    "用户": "user",
    "assistant": "assistant",
    "ai": "assistant",
    "助手": "assistant",
}
_LINE: Final = re.compile(rf"^[ \t]*({'|'.join(_ROLES)})[ \t]*[:：][ \t]*", re.IGNORECASE | re.MULTILINE)
_NUMBER: Final = re.compile(r"\d{1,9}(?:\.0+)?")
_MOST_TURNS: Final = 100


def conversation(fields: Mapping[str, Any]) -> tuple[ChatMessage, ...]:
    """Return the turns before the question, oldest first.

    A text is read as JSON messages with `role` and `content` (or `text`), else as lines that begin with `user:` and
    `assistant:`; any other text is one turn of the user. A number, as Dify's `sys.dialogue_count`, holds no turns.

    Raises:
        InvalidRequest: neither a text nor a number.
    """
    text = text_field(fields, "history")
    if text is None or text == GIVEN or _NUMBER.fullmatch(text):
        return ()
    turns = [turn for turn in (_of_json(text) or _of_lines(text)) if turn.content]
    return tuple(turns[-_MOST_TURNS:]) or (ChatMessage("user", text),)


def _of_json(text: str) -> list[ChatMessage]:
    """Return the turns of JSON messages; empty if the text is nothing of the kind."""
    if not text.startswith(("[", "{")):
        return []
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return []
    rows = value if isinstance(value, list) else [value]
    return [turn for row in rows if isinstance(row, Mapping) and (turn := _message(row)) is not None]


def _message(row: Mapping[str, Any]) -> ChatMessage | None:
    """Return a message of a user or an assistant; None for any other."""
    role, content = _ROLES.get(str(row.get("role", "")).casefold()), row.get("content", row.get("text"))
    if role is None or not isinstance(content, str):
        return None
    return ChatMessage(role, plain_text(content).strip())


def _of_lines(text: str) -> Iterator[ChatMessage]:
    """Yield the turns of lines that begin with their role; what precedes the first belongs to the user."""
    before, *parts = _LINE.split(text)
    yield ChatMessage("user", before.strip())
    for role, content in zip(parts[::2], parts[1::2], strict=True):
        yield ChatMessage(_ROLES[role.casefold()], content.strip())
