"""Adapters to models that turn text into vectors.

Which model to choose:

- English, on a CPU: `BAAI/bge-small-en-v1.5` (384 dimensions, 512 tokens, 130 MB), with `onnx` in production (no torch)
  or with `sentence_transformers`.
- Several languages: `intfloat/multilingual-e5-large` (1024 dimensions, 512 tokens, 2.2 GB); a GPU for indexing.
- If texts may leave the bank: `openai` with `text-embedding-3-large` (3072 dimensions, or fewer by `dimensions`); or an
  internal server with the same API.
- `sentence-transformers/all-MiniLM-L6-v2` (384 dimensions, 256 tokens) is the small model of the benchmarks and the
  minimum; it is older and weaker than the others.

A base is searched with the model it was built with: another model means embedding every passage again.
"""

from context_engine.adapters.embedders.cache import CachedEmbedder, CacheOptions, CacheStats, VectorFile, cached
from context_engine.adapters.embedders.local import Encoder, LocalEmbedder
from context_engine.adapters.embedders.openai import OpenAIEmbedder, Usage
from context_engine.adapters.embedders.prefixes import KnownModel, Prefixes, known_model, known_prefixes

__all__ = [
    "CacheOptions",
    "CacheStats",
    "CachedEmbedder",
    "Encoder",
    "KnownModel",
    "LocalEmbedder",
    "OpenAIEmbedder",
    "Prefixes",
    "Usage",
    "VectorFile",
    "cached",
    "known_model",
    "known_prefixes",
]
