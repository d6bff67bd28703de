"""What a caller may search."""

from __future__ import annotations

from context_engine.core.models import DomainSpec, Principal
from context_engine.service.contract.domains import DomainEntry, DomainsResponse, SourceEntry
from context_engine.service.deployment import Deployment


def domains_known_to(deployment: Deployment, principal: Principal) -> DomainsResponse:
    """Return the domains and sources that a principal may search, by name, and the personas.

    Raises:
        PolicyError: the access policy failed.
    """
    registry = deployment.known_to(principal)
    return DomainsResponse(
        domains=tuple(_entry(name, registry.domains.get(name)) for name in registry.names),
        personas=deployment.setup.resolver.personas,
        demo=deployment.demo,
    )


def _entry(name: str, spec: DomainSpec | None) -> DomainEntry:
    if spec is None:
        return DomainEntry(domain=name, title="", description="", usable=False, sources=())
    sources = tuple(
        SourceEntry(source_id=one.id, title=one.title, authority_tier=one.tier, source_type=str(one.type))
        for one in spec.sources
    )
    return DomainEntry(domain=name, title=spec.title, description=spec.description, usable=True, sources=sources)
