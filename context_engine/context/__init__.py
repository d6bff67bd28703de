"""From a ranked result to what a language model reads, under a token budget."""

from context_engine.context.tokens import ApproxTokenCounter

__all__ = ["ApproxTokenCounter"]
