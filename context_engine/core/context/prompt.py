"""Chunk dicts as a context string: the plain function for prompt builders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from context_engine.core.context.assemble import HEADING, checked_frame
from context_engine.core.context.limits import TextLimit, limited
from context_engine.core.context.page import Frame, page
from context_engine.core.context.passage import passages_from_dicts
from context_engine.core.context.render import Form
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.models import MASK_CONTEXTS, Context
from context_engine.core.protocols import Mask, TokenCounter
from context_engine.core.text import content_sha256
from context_engine.errors import InvalidRequest

_NO_LIMIT: Final = 10**12


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
    return context_of_dicts(
        chunks, max_chars, max_tokens, counter=counter, form=form, nonce=nonce, heading=heading, mask=mask
    ).text


def context_of_dicts(
    chunks: Sequence[Mapping[str, Any]],
    max_chars: int | None = None,
    max_tokens: int | None = None,
    *,
    counter: TokenCounter | None = None,
    form: Form = "markdown",
    nonce: str | None = None,
    heading: str | None = HEADING,
    mask: Mask | None = None,
) -> Context:
    """Return what `build_context_block` returns, with its blocks, what they cite and what was left out.

    Where there is a limit of characters, its `tokens` and `budget` are in that measure.

    Raises:
        InvalidRequest, MaskingError: see `build_context_block`.
    """
    passages = passages_from_dicts(chunks)
    if mask is None and must_be_masked(chunks):
        raise InvalidRequest(
            "these chunks are of a domain that masks personal data in contexts (mask_contexts): pass mask=engine.mask, "
            "or mask=pipeline.mask of the pipeline that retrieved them"
        )
    if nonce is None:
        nonce = content_sha256("\0".join(passage.chunk.content for passage in passages))[:16]
    tokens = counter or ApproxTokenCounter()
    for limit in filter(None, (limited(tokens, max_tokens, None), limited(tokens, max_tokens, max_chars))):
        checked_frame(_frame(limit, form, nonce, heading, mask))
    limit = limited(tokens, max_tokens, max_chars) or TextLimit(tokens, _NO_LIMIT)
    return page(passages, checked_frame(_frame(limit, form, nonce, heading, mask)))


def _frame(limit: TextLimit, form: Form, nonce: str, heading: str | None, mask: Mask | None) -> Frame:
    return Frame(limit.counter, limit.budget, form, nonce, heading, 1.0, mask=mask)


def must_be_masked(chunks: Iterable[Mapping[str, Any]]) -> bool:
    """Whether the tag of a chunk says that personal data in it must be masked; it goes with it wherever that is put."""
    return any(map(_must_be_masked, chunks))


def _must_be_masked(chunk: Mapping[str, Any]) -> bool:
    tag = chunk.get("_provenance")
    extra = tag.get("extra") if isinstance(tag, Mapping) else None
    return isinstance(extra, Mapping) and bool(extra.get(MASK_CONTEXTS))
