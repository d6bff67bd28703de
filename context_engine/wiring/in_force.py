"""The settings, model and adapter with which a recorded request would be searched now."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from context_engine.core.concurrency.awaiting import close
from context_engine.core.engine.permission import permitted_settings
from context_engine.core.models import DomainSpec, EffectiveSettings, ScoreKind, SearchRequest, SearchResult, SourceSpec
from context_engine.core.policy.access import OpenAccess
from context_engine.core.protocols import TokenCounter
from context_engine.wiring.build import source_opener
from context_engine.wiring.examine import offered, taught_source
from context_engine.wiring.functions import SPEAKS_FOR_ITSELF, FunctionEngines
from context_engine.wiring.models import RerankerChoice, hybrid
from context_engine.wiring.setup import Setup

if TYPE_CHECKING:
    from context_engine.audit.review.replay import ChangedScorer


def settings_in_force(setup: Setup, request: SearchRequest, specs: tuple[SourceSpec, ...]) -> EffectiveSettings:
    """Return the settings with which an engine would search now; no model is opened.

    Args:
        setup: the configuration.
        request: the original request, including its own settings.
        specs: the sources that were searched; a caller's own function counts as one.

    Raises:
        UnknownDomain: the domain is not registered any more, or closed to the principal.
        InvalidRequest, ConfigError: the request or the configuration cannot be used now.
    """
    restricted = not isinstance(setup.access, OpenAccess)
    domain = _domain(setup, request, specs, restricted=restricted)
    base, settings = setup.resolver.base().values, setup.resolver.resolve(domain, request)
    by = settings.values.rerank_by
    named = base.reranker != "noop" if by is None else by in base.rerankers
    settings = hybrid(settings, request.query, has_reranker=named and base.reranking_enabled)
    return permitted_settings(settings, domain) if restricted else settings


def changed_scorer(setup: Setup, data_dir: Path, result: SearchResult) -> ChangedScorer | None:
    """Return the recorded scorer of a domain's vectors (model and adapter), and the scorer in force now.

    Returns:
        None if they are equal, or if the result has no cosines of the store that learns for the domain.

    Raises:
        UnknownDomain, InvalidRequest, ConfigError: as `settings_in_force`.
        SourceError, StoreError: there is no store, or it cannot be read.
    """
    from context_engine.adapters.sources.stores.adapter_keeping import AdapterKeeping
    from context_engine.audit.review.replay import ChangedScorer

    if result.request is None:
        return None
    registry = setup.visible(result.request.principal)
    domain = registry.domain(result.request.domain)
    first = taught_source(domain)
    own = {spec.id for spec in result.specs if spec.adapter == first.adapter}
    chunks = (chunk for answer in result.raw if answer.source_id in own for chunk in answer.chunks)
    was = {score.scorer for chunk in chunks for score in chunk.scores if score.kind is ScoreKind.COSINE}
    if len(was) != 1:
        return None
    scope = setup.access.decide(result.request.principal, domain).scope
    source = source_opener(setup, data_dir=data_dir, embedder=lambda: None).open(domain, first)
    try:
        store = offered(source, AdapterKeeping)
        if store is None:
            return None
        now = "" if setup.resolver.base().values.embedder is None else store.scorer_id(domain.domain, access=scope)
    finally:
        close(source)
    (before,) = was
    return None if before == now else ChangedScorer(before or "", now)


def _domain(setup: Setup, request: SearchRequest, specs: tuple[SourceSpec, ...], *, restricted: bool) -> DomainSpec:
    if [spec.id for spec in specs] == [SPEAKS_FOR_ITSELF.id]:
        choice = RerankerChoice.of(setup.resolver)
        return FunctionEngines(choice, setup.mask(), setup.registry.domains).domain(request.domain)
    registry = setup.visible(request.principal) if restricted else setup.registry
    return registry.domain(request.domain)


def counter_of_name(name: str) -> TokenCounter:
    """Return the token counter that a context names.

    Raises:
        ConfigError: there is no counter of this name, or it cannot be opened.
        MissingExtra: the extra `tokens` is not installed.
    """
    from context_engine.adapters.token_counters import open_counter
    from context_engine.core.context import ApproxTokenCounter, named_counter

    def opened(plain: str) -> TokenCounter:
        return ApproxTokenCounter() if plain == ApproxTokenCounter.name else open_counter(plain.replace("/", ":", 1))

    return named_counter(name, opened)
