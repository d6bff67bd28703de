"""Which personas a search may name."""

from __future__ import annotations

from collections.abc import Set

from context_engine.core.models import Principal
from context_engine.service.contract.personas import PersonaEntry, PersonasResponse
from context_engine.service.deployment import Deployment
from context_engine.settings.personas import Persona


def personas_known_to(deployment: Deployment, principal: Principal) -> PersonasResponse:
    """Return the personas by name; of the sources that one names, those that a principal may know.

    Raises:
        PolicyError: the access policy failed.
    """
    registry = deployment.known_to(principal)
    known = {source.id for domain in registry.domains.values() for source in domain.sources}
    personas = sorted(deployment.setup.config.personas.items())
    return PersonasResponse(personas=tuple(_entry(deployment, name, one, known) for name, one in personas))


def _entry(deployment: Deployment, name: str, persona: Persona, known: Set[str]) -> PersonaEntry:
    values = deployment.setup.resolver.base(persona=name).values
    sources = None if values.sources is None else tuple(one for one in values.sources if one in known)
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
