"""How near the candidates of a question come to it, with no threshold in force."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from types import MappingProxyType
from typing import Any, Final

from context_engine.core.engine.engine import Engine
from context_engine.core.models import Key, SearchRequest
from context_engine.errors import RetrievalFailed

__all__ = ["NO_THRESHOLDS", "absolute_signals"]

NO_THRESHOLDS: Final[Mapping[str, Any]] = MappingProxyType(
    {
        "min_relevance_score": 0.0,
        "scope_threshold": 0.0,
        "stage2_top_k": 1000,
        "similarity_threshold": None,
        "dedup_method": "off",
        "max_per_document": None,
        "mmr_lambda": None,
        "reranking_enabled": False,
    }
)
"""Settings of a search that returns every candidate."""


def absolute_signals(
    engine: Engine,
    query: str,
    domain: str,
    *,
    as_of: date | None = None,
    settings: Mapping[str, Any] = MappingProxyType({}),
) -> dict[Key, float]:
    """Return the absolute relevance of every candidate, by its identity.

    Args:
        as_of: the day that is asked about; None: today.
        settings: of the search, above those that switch every threshold off.

    Raises:
        InvalidRequest, ConfigError: as `Engine.search`.
        RetrievalFailed: a source did not answer: the signal would be too low.
    """
    request = SearchRequest(query=query, domain=domain, as_of=as_of, overrides={**NO_THRESHOLDS, **settings})
    result = engine.search(request)
    if failed := [source.source_id for source in result.sources if source.state == "failed"]:
        raise RetrievalFailed(f"{', '.join(failed)} did not answer {query!r}: its signal would be too low")
    return {(chunk.source_id, chunk.chunk_id): chunk.absolute for chunk in result.chunks}
