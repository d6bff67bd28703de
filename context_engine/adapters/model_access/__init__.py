"""Shared by embedders and rerankers: their options and context, and access to models on disk or over HTTP.

The HTTP client comes with `model_access.server` alone: most set-ups name no model.
"""

from context_engine.adapters.model_access.context import (
    EmbedderFactory,
    ModelContext,
    Options,
    RerankerFactory,
    read_options,
)

__all__ = ["EmbedderFactory", "ModelContext", "Options", "RerankerFactory", "read_options"]
