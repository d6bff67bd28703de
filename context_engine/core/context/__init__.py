"""From a ranked result to what a language model reads, under a token budget."""

from context_engine.core.context.assemble import assemble, for_a_model, from_result
from context_engine.core.context.fence import fence, parse_fences
from context_engine.core.context.page import NOTHING_FOUND
from context_engine.core.context.prompt import build_context_block, inject_rag_context
from context_engine.core.context.tokens import ApproxTokenCounter
from context_engine.core.context.values import Citation, Context, ContextBlock, OmittedPassage

__all__ = [
    "NOTHING_FOUND",
    "ApproxTokenCounter",
    "Citation",
    "Context",
    "ContextBlock",
    "OmittedPassage",
    "assemble",
    "build_context_block",
    "fence",
    "for_a_model",
    "from_result",
    "inject_rag_context",
    "parse_fences",
]
