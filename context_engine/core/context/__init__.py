"""Turns a ranked result into a context for a language model, within a token budget."""

from context_engine.core.context.assemble import NOTHING_FOUND, assemble
from context_engine.core.context.fence import fence, parse_fences
from context_engine.core.context.of_result import ContextPart, for_a_model, from_result, parts_of_result
from context_engine.core.context.prompt import (
    CITE_PROMPT,
    build_context_block,
    context_of_dicts,
    inject_rag_context,
    must_be_masked,
    system_prompt,
)
from context_engine.core.context.tokens import ApproxTokenCounter, TextLimit, limited, named_counter
from context_engine.core.models import Citation, Context, ContextBlock, OmittedPassage

__all__ = [
    "CITE_PROMPT",
    "NOTHING_FOUND",
    "ApproxTokenCounter",
    "Citation",
    "Context",
    "ContextBlock",
    "ContextPart",
    "OmittedPassage",
    "TextLimit",
    "assemble",
    "build_context_block",
    "context_of_dicts",
    "fence",
    "for_a_model",
    "from_result",
    "inject_rag_context",
    "limited",
    "must_be_masked",
    "named_counter",
    "parse_fences",
    "parts_of_result",
    "system_prompt",
]
