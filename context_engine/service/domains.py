"""Lists the domains and personas that a caller may use."""

from __future__ import annotations

from collections.abc import Set

from context_engine.core.models import DomainSpec, Principal
from context_engine.service.contract.domains import (
    DomainEntry,
    DomainsResponse,
    PersonaEntry,
    PersonasResponse,
    SourceEntry,
)
from context_engine.service.deployment import Deployment
from context_engine.settings.resolver import Persona


def domains_known_to(deployment: Deployment, principal: Principal) -> DomainsResponse:
    """Return the domains and sources that a principal may search, by name, and the personas.

    Raises:
        PolicyError: the access policy failed.
    """
    registry = deployment.known_to(principal)
    return DomainsResponse(
        domains=tuple(_domain_entry(name, registry.domains.get(name)) for name in registry.names),
        personas=deployment.setup.resolver.personas,
        demo=deployment.demo,
    )


def _domain_entry(name: str, spec: DomainSpec | None) -> DomainEntry:
    if spec is None:
        return DomainEntry(domain=name, title="", description="", usable=False, sources=())
    sources = tuple(
        SourceEntry(
            source_id=source.id,
            namespace=source.in_namespace,
            title=source.title,
            authority_tier=source.tier,
            source_type=str(source.type),
        )
        for source in spec.sources
    )
    return DomainEntry(domain=name, title=spec.title, description=spec.description, usable=True, sources=sources)


def personas_known_to(deployment: Deployment, principal: Principal) -> PersonasResponse:
    """Return the personas by name, without sources that the principal may not know of.

    Raises:
        PolicyError: the access policy failed.
    """
    registry = deployment.known_to(principal)
    known = {name for domain in registry.domains.values() for name in domain.names}
    personas = sorted(deployment.setup.config.personas.items())
    return PersonasResponse(
        personas=tuple(_persona_entry(deployment, name, persona, known) for name, persona in personas)
    )


def _persona_entry(deployment: Deployment, name: str, persona: Persona, known: Set[str]) -> PersonaEntry:
    values = deployment.setup.resolver.base(persona=name).values
    sources = None if values.sources is None else tuple(source for source in values.sources if source in known)
    settings = values.model_dump(mode="json", include=set(persona.layer))
    if "sources" in settings:
        settings["sources"] = sources
    return PersonaEntry(
        key=name,
        description=persona.description,
        origin=persona.origin,
        similarity_threshold=values.similarity_threshold,
        max_results=values.stage2_top_k,
        min_results=values.min_chunks,
        rerank=values.reranking_enabled,
        rerank_by=values.rerank_by,
        namespaces=sources,
        settings=settings,
    )
