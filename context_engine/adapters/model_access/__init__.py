"""Shared by embedders and rerankers: their options and context, and access to models on disk or over HTTP.

The HTTP client is imported with `model_access.server` only: most set-ups use no model server.
"""

from context_engine.adapters.model_access.context import (
    EmbedderFactory,
    ModelContext,
    Options,
    RerankerFactory,
    read_options,
)

__all__ = ["EmbedderFactory", "ModelContext", "Options", "RerankerFactory", "read_options"]
