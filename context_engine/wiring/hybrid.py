"""What of the settings stays the same for all searches of an engine, and when a merge goes on to a reranker."""

from __future__ import annotations

from typing import Final

from context_engine.core.models import EffectiveSettings
from context_engine.core.query.language import UNKNOWN, language
from context_engine.errors import ConfigError, InvalidRequest
from context_engine.settings import Setting
from context_engine.settings.layers import with_layer

__all__ = ["FIXED", "hybrid"]

FIXED: Final = (
    "embedder",
    "embedder_options",
    "merge_method",
    "keyword_weight",
    "vector_weight",
    "rrf_k",
    "pairs_weight",
    "head_weight",
    "section_weight",
    "sibling_weight",
    "neighbour_weight",
    "title_boost",
    "definition_boost",
    "query_refiner",
    "query_refiner_options",
)
"""One for all searches of an engine: models, and how the embedded base searches, so that its scores stay comparable."""
_READ_BY_RERANKERS: Final = ("en", UNKNOWN)


def hybrid(base: EffectiveSettings, asked: EffectiveSettings, query: str, *, has_reranker: bool) -> EffectiveSettings:
    """Return the settings of a search, as far as text and vectors are merged.

    "rrf_rerank" ends at the ranks where a question is not in English: the rerankers it is meant for read English only.

    Raises:
        InvalidRequest: a call sets a key of FIXED to another value.
        ConfigError: a domain or a persona does, or "rrf_rerank" has no reranker.
    """
    _refuse_other(base, asked)
    if asked.values.merge_method != "rrf_rerank" or not asked.values.reranking_enabled:
        return asked
    if not has_reranker:
        problem = "'rrf_rerank' needs a reranker: name one as 'reranker', or take 'rrf'"
        raise ConfigError(problem, file=asked.origins.get("merge_method"), key="merge_method")
    if language(query) in _READ_BY_RERANKERS:
        return asked
    return with_layer(asked, {"reranking_enabled": Setting(False, "merge_method")})


def _refuse_other(base: EffectiveSettings, asked: EffectiveSettings) -> None:
    for key in FIXED:
        held = getattr(base.values, key)
        if getattr(asked.values, key) == held:
            continue
        problem = (
            f"{key} is the same for all searches of an engine, here {held!r}: set it in rag-pipeline.json, in the "
            "environment or in the pipeline config"
        )
        origin = asked.origins.get(key, "default")
        raise InvalidRequest(problem) if origin == "call" else ConfigError(problem, file=origin, key=key)
