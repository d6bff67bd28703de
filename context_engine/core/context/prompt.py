"""Chunk dicts as a context string, and a context put into a chat: the plain functions for prompt builders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from context_engine.core.context.assemble import HEADING, checked_frame
from context_engine.core.context.page import Frame, page
from context_engine.core.context.passage import passages_from_dicts
from context_engine.core.context.render import Form
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import MASK_CONTEXTS
from context_engine.core.protocols import Mask, TokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

__all__ = ["build_context_block", "inject_rag_context"]

_NO_LIMIT: Final = 10**12


class _Characters:
    """Counts characters, and tokens where they bind harder: `most_tokens` tokens weigh as much as `most_chars`."""

    name = "characters"

    def __init__(self, counter: TokenCounter, most_chars: int, most_tokens: int | None) -> None:
        self._counter, self._most_chars, self._most_tokens = counter, most_chars, most_tokens

    def count(self, text: str) -> int:
        if self._most_tokens is None:
            return len(text)
        return max(len(text), -(-self._counter.count(text) * self._most_chars // self._most_tokens))


def build_context_block(
    chunks: Sequence[Mapping[str, Any]],
    max_chars: int | None = None,
    max_tokens: int | None = None,
    *,
    counter: TokenCounter | None = None,
    form: Form = "markdown",
    nonce: str | None = None,
    heading: str | None = HEADING,
    mask: Mask | None = None,
) -> str:
    """Return chunk dicts, best first, as a context string; "No relevant information found" for none.

    A text whose tag names no trust class, tier or source type is fenced as untrusted, and so is one that reads like
    instructions to a model or fakes marks.

    Args:
        chunks: dicts with `content`, with or without `_provenance`; never changed.
        max_chars, max_tokens: limits of the whole string, both kept; None is no limit. What does not fit is left out,
            lowest rank first.
        counter: counts the tokens; None is the offline estimate.
        nonce: of the fences; None derives it from the texts. A fence holds even where a text knows its nonce.
        mask: masks personal data (`Engine.mask`, `RagPipeline.mask`); None for none. Chunks of a domain that masks
            contexts are refused without it.

    Raises:
        InvalidRequest: a chunk without text, a limit, form or nonce that cannot be used, or a mask that is missing.
        MaskingError: a masker failed.
    """
    passages = passages_from_dicts(chunks)
    if mask is None and any(map(_must_be_masked, chunks)):
        raise InvalidRequest(
            "these chunks are of a domain that masks personal data in contexts (mask_contexts): pass mask=engine.mask, "
            "or mask=pipeline.mask of the pipeline that retrieved them"
        )
    if nonce is None:
        nonce = content_sha256("\0".join(passage.chunk.content for passage in passages))[:16]
    measure: TokenCounter = counter or ApproxTokenCounter()
    budget = max_tokens
    if max_chars is not None:
        checked_frame(Frame(measure, _NO_LIMIT if max_tokens is None else max_tokens, form, nonce, heading, 1.0))
        measure, budget = _Characters(measure, max_chars, max_tokens), max_chars
    frame = Frame(measure, _NO_LIMIT if budget is None else budget, form, nonce, heading, 1.0, mask=mask)
    return page(passages, checked_frame(frame)).text


def _must_be_masked(chunk: Mapping[str, Any]) -> bool:
    """Whether the tag of a chunk says so; it goes with the chunk wherever that is put."""
    tag = chunk.get("_provenance")
    extra = tag.get("extra") if isinstance(tag, Mapping) else None
    return isinstance(extra, Mapping) and bool(extra.get(MASK_CONTEXTS))


def inject_rag_context(messages: Sequence[Mapping[str, Any]], context: str) -> list[dict[str, Any]]:
    """Return the messages of a chat with a context in them; nothing given is changed.

    The context is appended, after an empty line, to the last system message before the last user message. Without one
    it becomes a system message of its own right before the last user message, or at the end of a chat without a user.
    An empty context changes nothing.

    Args:
        messages: {"role", "content"}; a content of parts ([{"type": "text", ...}]) gets one more text part.

    Raises:
        InvalidRequest: a message that is not a mapping, or a context that is not text.
    """
    if not isinstance(context, str):
        raise InvalidRequest(f"context must be text, got {type(context).__name__}: pass Context.text")
    for message in messages:
        if not isinstance(message, Mapping):
            raise InvalidRequest(f"a message must be a dict with 'role' and 'content', got {type(message).__name__}")
    out = [dict(message) for message in messages]
    if not context.strip():
        return out
    users = [index for index, message in enumerate(out) if message.get("role") == "user"]
    before = users[-1] if users else len(out)
    systems = [index for index, message in enumerate(out[:before]) if message.get("role") == "system"]
    if systems:
        system = out[systems[-1]]
        system["content"] = _appended(system.get("content"), context)
    else:
        out.insert(before, {"role": "system", "content": context})
    return out


def _appended(content: Any, context: str) -> Any:
    if isinstance(content, list | tuple):
        return [*content, {"type": "text", "text": context}]
    return f"{content}\n\n{context}" if content else context
