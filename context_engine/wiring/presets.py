"""Pipeline settings that belong together, to be given as `pipeline` or written into rag-pipeline.json."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any, Final

FUNNEL: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "stage1_top_k": 50,
        "similarity_threshold": 0.75,
        "similarity_kind": "cosine",
        "stage2_top_k": 15,
        "reranker": "cross_encoder",
        "reranker_options": {"model": "cross-encoder/ms-marco-MiniLM-L-12-v2"},
        "context_max_tokens": 12_000,
        "max_chunk_tokens": 800,
    }
)
"""Fifty candidates, those of a cosine from .75, the best fifteen by a cross-encoder, 12,000 tokens of context, and
chunks of up to 800 tokens, as the chunking profile `funnel` makes them.

The threshold must fit the embedding model: measured with all-MiniLM-L6-v2, three of four right passages lie below .75
(their median is .65), so lower it for such a model. Without an embedder no candidate carries a cosine, and all pass,
marked. As a file it is `config/rag-pipeline.funnel.example.json`, which `context-engine init` writes too: put it in
place of `rag-pipeline.json`.
"""
