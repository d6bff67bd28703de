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

from context_engine.errors import AllSourcesFailed, ConfigError, ContextEngineError, InvalidRequest, SourceError

if TYPE_CHECKING:
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
        Classification,
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
    from context_engine.service.contract.answer import AnswerJson
    from context_engine.service.contract.rag import RAGQueryRequest
    from context_engine.service.pipeline import RAGPipeline
    from context_engine.wiring.build import build_engine

__version__ = "0.1.0"

# Imported on first use: a program that needs one name does not pay for the others.
_PLACES = {
    "context_engine.core.context": (
        "CITE_PROMPT ApproxTokenCounter Context build_context_block from_result inject_rag_context system_prompt"
    ),
    "context_engine.core.engine": "Engine recompute",
    "context_engine.core.models": (
        "Caller Chunk Classification Decision Principal RankedChunk Registry Score ScoreKind SearchRequest "
        "SearchResult SourceAnswer SourceQuery Status TermStatistics"
    ),
    "context_engine.core.policy.filters": "parse_filter",
    "context_engine.service.contract.answer": "AnswerJson",
    "context_engine.service.contract.rag": "RAGQueryRequest",
    "context_engine.service.pipeline": "RAGPipeline",
    "context_engine.wiring.build": "build_engine",
}
_MODULE_OF = {name: module for module, names in _PLACES.items() for name in names.split()}

logging.getLogger(__name__).addHandler(logging.NullHandler())

__all__ = [
    "CITE_PROMPT",
    "AllSourcesFailed",
    "AnswerJson",
    "ApproxTokenCounter",
    "Caller",
    "Chunk",
    "Classification",
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
    """Import a public name on its first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(_MODULE_OF[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
