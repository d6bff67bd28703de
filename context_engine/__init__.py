"""Two-stage retrieval with authority, provenance and audit for enterprise knowledge bases.

    from context_engine import SearchRequest, build_engine

    with build_engine() as engine:
        result = engine.search(SearchRequest(query="NPA classification criteria", domain="NPA"))

`context_engine.rag` is the same as functions on dicts; `context_engine.errors` draws the tree of errors.
"""

import logging

from context_engine.core.context import (
    ApproxTokenCounter,
    Context,
    build_context_block,
    from_result,
    inject_rag_context,
)
from context_engine.core.engine import Engine, recompute
from context_engine.core.models import (
    Caller,
    Chunk,
    Decision,
    Principal,
    RankedChunk,
    Registry,
    Score,
    ScoreKind,
    SearchRequest,
    SearchResult,
    SourceAnswer,
    SourceQuery,
    Status,
    TermStatistics,
)
from context_engine.core.policy.filters import parse_filter
from context_engine.errors import AllSourcesFailed, ConfigError, ContextEngineError, InvalidRequest, SourceError
from context_engine.wiring import build_engine

__version__ = "0.1.0"

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "AllSourcesFailed",
    "ApproxTokenCounter",
    "Caller",
    "Chunk",
    "ConfigError",
    "Context",
    "ContextEngineError",
    "Decision",
    "Engine",
    "InvalidRequest",
    "Principal",
    "RankedChunk",
    "Registry",
    "Score",
    "ScoreKind",
    "SearchRequest",
    "SearchResult",
    "SourceAnswer",
    "SourceError",
    "SourceQuery",
    "Status",
    "TermStatistics",
    "build_context_block",
    "build_engine",
    "from_result",
    "inject_rag_context",
    "parse_filter",
    "recompute",
]
