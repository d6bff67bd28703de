"""Chooses the reranker of a search, and resolves pipeline settings that depend on each other."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final

from context_engine.core.engine.reranking import chosen
from context_engine.core.models import DomainSpec, EffectiveSettings, SearchRequest, Settings
from context_engine.core.protocols import Reranker
from context_engine.core.query.language import UNKNOWN, language
from context_engine.errors import ConfigError, InvalidRequest, nearest
from context_engine.settings import Setting, SettingsResolver
from context_engine.settings.layers import with_layer
from context_engine.wiring.models import Models


def unknown_reranker(settings: EffectiveSettings) -> ConfigError | None:
    """Return an error if `rerank_by` names none of `rerankers`, else None."""
    name, known = settings.values.rerank_by, settings.values.rerankers
    if name is None or name in known:
        return None
    problem = f"{name!r} is not one of the rerankers in 'rerankers'.{nearest(name, known) or ' It names none.'}"
    return ConfigError(problem, file=settings.origins.get("rerank_by", "default"), key="rerank_by")


@dataclass(frozen=True, slots=True)
class RerankerChoice:
    """The rerankers of an engine, and the choice of the one that runs in a search.

    Attributes:
        reranker: runs if a search names none.
        from_code: it was passed in and replaces all configured rerankers.
        named: the rerankers that `rerank_by` can name.
    """

    resolver: SettingsResolver
    reranker: Reranker | None
    from_code: bool
    named: Mapping[str, Reranker] = field(default_factory=dict)

    @classmethod
    def of(
        cls, resolver: SettingsResolver, given: Reranker | None = None, *, models: Models | None = None
    ) -> RerankerChoice:
        """Return the given reranker, else the configured one, opened by `models`.

        Raises:
            ConfigError: not installed, or unusable options.
        """
        if given is not None:
            return cls(resolver, given, True)
        return cls(resolver, models.reranker(), False, models.rerankers()) if models else cls(resolver, None, False)

    def of_settings(self, settings: Settings) -> Reranker | None:
        """Return the reranker of a search with settings from `resolve`; None if there is none."""
        every: dict[str | None, Reranker | None] = {None: self.reranker}
        every.update(self.named)
        return chosen(every, settings)

    def resolve(self, domain: DomainSpec | None, request: SearchRequest) -> EffectiveSettings:
        """Return the settings of a search.

        Raises:
            InvalidRequest: an unusable option, or reranking on an engine that was built without it.
            ConfigError: the same, set in a file.
        """
        settings = self.resolver.resolve(domain, request)
        if self.from_code and self.reranker is not None:
            own = {"reranker": Setting(self.reranker.name, "code")}
            own |= {} if settings.values.rerank_by is None else {"rerank_by": Setting(None, "code")}
            return hybrid(with_layer(settings, own), request.query, has_reranker=True)
        by = settings.values.rerank_by
        has_reranker = self.reranker is not None if by is None else by in self.named
        settings = hybrid(settings, request.query, has_reranker=has_reranker)
        if has_reranker or not settings.values.reranking_enabled:
            return settings
        unknown = unknown_reranker(settings)
        if unknown is not None:
            raise InvalidRequest(f"option 'rerank_by': {unknown.problem}") if unknown.file == "call" else unknown
        name = settings.values.reranker if by is None else by
        if name == "noop":
            return settings
        problem = f"this engine was built with reranking_enabled false, so its reranker {name!r} is not open: "
        problem += "set it to true in rag-pipeline.json, in CONTEXT_ENGINE_RERANKING_ENABLED or in the pipeline config"
        origin, key = settings.origins.get("reranking_enabled", "default"), "reranking_enabled"
        raise InvalidRequest(problem) if origin == "call" else ConfigError(problem, file=origin, key=key)


_READ_BY_RERANKERS: Final = ("en", UNKNOWN)


def hybrid(settings: EffectiveSettings, query: str, *, has_reranker: bool) -> EffectiveSettings:
    """Return the settings of a search with the merge of text and vectors resolved.

    For a question that is not in English "rrf_rerank" becomes plain ranks, because its rerankers read English only.

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
"""Fifty candidates, a cosine of at least .75, the best fifteen by a cross-encoder, 12,000 tokens of context, and
chunks of up to 800 tokens from the chunking profile `funnel`.

The threshold must fit the embedding model: measured with all-MiniLM-L6-v2, three of four right passages lie below .75
(their median is .65), so lower it for such a model. Without an embedder no candidate has a cosine, and all pass,
marked. As a file it is `config/rag-pipeline.funnel.example.json`, which `context-engine init` writes too: put it in
place of `rag-pipeline.json`.
"""
