"""The `domains` tool: the domains and sources that the caller may search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from context_engine.apps.mcp.answers import DomainsAnswer, DomainShown, SourceShown
from context_engine.apps.mcp.arguments import DomainsArguments
from context_engine.apps.mcp.reply import Call, Reply, labelled
from context_engine.core.models import DomainSpec

_WHOLE: Final = (10_000, 10_000)
_FEWER: Final = ((10_000, 10), (300, 2), (40, 0))
"""Most domains, and most sources of each, if the full list is too long for a model."""


def domains(call: Call, _asked: DomainsArguments) -> Reply:
    """Return the domains and sources that the caller may know; others are not mentioned."""
    known = call.deployment.known_to(call.caller.principal)
    specs = [known.domains[name] for name in known.names if name in known.domains]
    reply = _reply(call, specs, *_WHOLE)
    for most_domains, most_sources in _FEWER:
        if reply.fits:
            break
        reply = _reply(call, specs, most_domains, most_sources)
    return reply


def _reply(call: Call, specs: Sequence[DomainSpec], most_domains: int, most_sources: int) -> Reply:
    listed = [_shown(domain, most_sources) for domain in specs[:most_domains]]
    total = len(specs) + sum(len(domain.sources) for domain in specs[:most_domains])
    answer = DomainsAnswer(
        domains=listed,
        personas=list(call.deployment.setup.resolver.personas[:most_domains]),
        not_listed=total - len(listed) - sum(len(entry.sources) for entry in listed),
        demo=call.deployment.demo,
    )
    return Reply(answer, _text(answer))


def _shown(domain: DomainSpec, most_sources: int) -> DomainShown:
    return DomainShown(
        domain=domain.domain,
        title=labelled(domain.title),
        description=labelled(domain.description),
        sources=[
            SourceShown(
                id=source.id,
                namespace=source.in_namespace,
                title=labelled(source.title),
                type=str(source.type),
                authority_tier=source.tier,
            )
            for source in domain.sources[:most_sources]
        ],
    )


def _text(answer: DomainsAnswer) -> str:
    lines = ["This is a fictitious demo bank."] if answer.demo else []
    for domain in answer.domains:
        lines.append(": ".join(part for part in (domain.domain, domain.title, domain.description) if part))
        lines += [
            f"- {source.id}{_namespace(source)} (tier {source.authority_tier}, {source.type}) {source.title}"
            for source in domain.sources
        ]
    lines += [] if answer.domains else ["There is no domain that you may search."]
    lines += [f"{answer.not_listed} more domains and sources are not listed."] if answer.not_listed else []
    return "\n".join([*lines, f"Personas: {', '.join(answer.personas) or 'none'}"])


def _namespace(source: SourceShown) -> str:
    return "" if source.namespace == source.id else f" in {source.namespace}"
