"""Two-stage retrieval with authority, provenance and audit for enterprise knowledge bases.

    from context_engine import SearchRequest, build_engine

    with build_engine() as engine:
        result = engine.search(SearchRequest(query="NPA classification criteria", domain="NPA"))

`context_engine.rag` is the same as functions on dicts, `RAGPipeline` in the fields of the RAG API;
`context_engine.errors` draws the tree of errors.
"""

import logging
from importlib import import_module
from typing import TYPE_CHECKING, Any

from context_engine.core.context import (
    CITE_PROMPT,
    ApproxTokenCounter,
    Context,
    build_context_block,
    from_result,
    inject_rag_context,
    system_prompt,
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

if TYPE_CHECKING:
    from context_engine.service.contract.answer import AnswerJson
    from context_engine.service.contract.rag import RAGQueryRequest
    from context_engine.service.pipeline import RAGPipeline

__version__ = "0.1.0"

_ON_USE = {
    "AnswerJson": "context_engine.service.contract.answer",
    "RAGPipeline": "context_engine.service.pipeline",
    "RAGQueryRequest": "context_engine.service.contract.rag",
}

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "CITE_PROMPT",
    "AllSourcesFailed",
    "AnswerJson",
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
    "RAGPipeline",
    "RAGQueryRequest",
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
    "system_prompt",
]


def __getattr__(name: str) -> Any:
    """Return what is imported only where it is used: the RAG API."""
    if name not in _ON_USE:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_ON_USE[name]), name)
