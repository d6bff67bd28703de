"""The call of a tool and its reply: text and structured content, together short enough for a model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from pydantic import BaseModel

from context_engine.core.context import ApproxTokenCounter
from context_engine.core.context.fence import inert_line
from context_engine.core.models import Authenticated
from context_engine.service.deployment import Deployment

MOST_REPLY_TOKENS: Final = 18_000
"""Clients truncate answers above 25,000 tokens; non-Latin scripts take up to 1.38 times the estimate."""

_LONGEST_LABEL: Final = 300
_counter: Final = ApproxTokenCounter()


class Call(NamedTuple):
    """The context of a tool call; `request_id` is that of the HTTP request, None on stdio."""

    deployment: Deployment
    caller: Authenticated
    request_id: str | None = None


class SentReply(NamedTuple):
    """A reply as it is sent."""

    text: str
    structured: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Reply:
    """The answer of a tool.

    Attributes:
        content: published as structured content, in the tool's output schema.
        text: the same facts for a model that reads text; None: the content as JSON.
    """

    content: BaseModel
    text: str | None = None

    @property
    def structured(self) -> dict[str, Any]:
        """The structured content, JSON-ready."""
        return self.content.model_dump(mode="json")

    @property
    def read(self) -> str:
        """The text content."""
        return self.content.model_dump_json() if self.text is None else self.text

    def published(self) -> SentReply:
        """Return both forms."""
        return SentReply(self.read, self.structured)

    @property
    def tokens(self) -> int:
        """The estimated tokens of both forms together."""
        return _counter.count(self.read) + _counter.count(self.content.model_dump_json())

    @property
    def fits(self) -> bool:
        """Whether it is short enough for all clients."""
        return self.tokens <= MOST_REPLY_TOKENS


def labelled(text: str | None) -> str:
    """Return a title, section or address as one short line without markup; "" for None."""
    line = " ".join((text or "").split())
    return inert_line(line if len(line) <= _LONGEST_LABEL else f"{line[:_LONGEST_LABEL]} …")


def passage_id(domain: str, source_id: str, chunk_id: str) -> str:
    """Return the id by which `fetch` finds a passage; domain names and source ids contain no slash.

    An id that looks like an instruction is defused like all text of sources, and then finds nothing.
    """
    return inert_line(f"{domain}/{source_id}/{chunk_id}")
