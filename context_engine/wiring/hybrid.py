"""When a merge of text and vectors goes on to a reranker."""

from __future__ import annotations

from typing import Final

from context_engine.core.models import EffectiveSettings
from context_engine.core.query.language import UNKNOWN, language
from context_engine.errors import ConfigError
from context_engine.settings import Setting
from context_engine.settings.layers import with_layer

_READ_BY_RERANKERS: Final = ("en", UNKNOWN)


def hybrid(settings: EffectiveSettings, query: str, *, has_reranker: bool) -> EffectiveSettings:
    """Return the settings of a search, as far as text and vectors are merged.

    "rrf_rerank" ends at the ranks where a question is not in English: the rerankers it is meant for read English only.

    Raises:
        ConfigError: "rrf_rerank" has no reranker.
    """
    if settings.values.merge_method != "rrf_rerank" or not settings.values.reranking_enabled:
        return settings
    if not has_reranker:
        problem = "'rrf_rerank' needs a reranker: name one as 'reranker', or take 'rrf'"
        raise ConfigError(problem, file=settings.origins.get("merge_method"), key="merge_method")
    if language(query) in _READ_BY_RERANKERS:
        return settings
    return with_layer(settings, {"reranking_enabled": Setting(False, "merge_method")})
