"""What embedders and rerankers share: what they are opened with, and how a model is reached, on disk or over HTTP."""

from context_engine.model_access.context import EmbedderFactory, ModelContext, RerankerFactory
from context_engine.model_access.options import Options, read_options
from context_engine.model_access.server import ModelServer

__all__ = ["EmbedderFactory", "ModelContext", "ModelServer", "Options", "RerankerFactory", "read_options"]
