"""The settings that a recorded request would be searched with now."""

from __future__ import annotations

from context_engine.core.engine.permission import permitted_settings
from context_engine.core.models import DomainSpec, EffectiveSettings, SearchRequest, SourceSpec
from context_engine.core.policy.access import OpenAccess
from context_engine.wiring.build import Setup
from context_engine.wiring.functions import SPEAKS_FOR_ITSELF, FunctionEngines
from context_engine.wiring.hybrid import hybrid
from context_engine.wiring.reranker_choice import RerankerChoice

__all__ = ["settings_in_force"]


def settings_in_force(setup: Setup, request: SearchRequest, specs: tuple[SourceSpec, ...]) -> EffectiveSettings:
    """Return what an engine over a configuration would search with; no model is opened.

    Args:
        setup: the configuration.
        request: as it was made, the call's own settings among it.
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


def _domain(setup: Setup, request: SearchRequest, specs: tuple[SourceSpec, ...], *, restricted: bool) -> DomainSpec:
    if [spec.id for spec in specs] == [SPEAKS_FOR_ITSELF.id]:
        choice = RerankerChoice.of(setup.resolver)
        return FunctionEngines(choice, setup.mask(), setup.registry.domains).domain(request.domain)
    registry = setup.visible(request.principal) if restricted else setup.registry
    return registry.domain(request.domain)
