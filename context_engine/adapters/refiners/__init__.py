"""Query refiners: a model that words a question better for search, and says what it is about."""

from context_engine.adapters.refiners.openai import OpenAIRefiner, OpenAIRefinerOptions, open_openai

__all__ = ["OpenAIRefiner", "OpenAIRefinerOptions", "open_openai"]
