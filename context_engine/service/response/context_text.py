"""What a model reads, as the RAG API gives it."""

from __future__ import annotations

from typing import Final

from context_engine.core.context import ApproxTokenCounter
from context_engine.core.models import Context
from context_engine.service.contract.rag import ContextString

COUNTER: Final = ApproxTokenCounter()
"""Counts the tokens of every text that the service gives out."""


def context_string(context: Context) -> ContextString:
    """Return a context with its length in tokens, whatever its limit was measured in."""
    measured = context.counter == COUNTER.name
    return ContextString.model_construct(
        formatted_context=context.text,
        num_chunks=context.chunk_count,
        total_tokens=context.tokens if measured else COUNTER.count(context.text),
        token_counter=COUNTER.name,
        max_chunk_score=context.max_score,
    )
