"""The manifests' rules in Cedar, for reviewers who read that language and for tools that analyse it.

One policy a source, so that Cedar's "nothing is permitted unless it is said" is ours too; what a policy asks for stands
in the order in which `ManifestPolicy` decides. A clearance is an entity that stands in every lower one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from context_engine.core.models import AccessRule, Classification, DomainSpec, Principal, SourceSpec

Entity = Mapping[str, Any]

_HEAD: Final = """\
// The access rules of the manifests. A principal stands in its Roles, its Groups and its Clearance; a source in its
// Domain, a document in its Source. What no policy permits is forbidden.
"""
_RAISED: Final = """\
// A document may raise its classification: whoever reads it needs that clearance, with or without a rule.
@id("raised documents")
forbid (
  principal,
  action == Action::"read",
  resource is Document
)
when { resource has raised_to }
unless { principal in resource.raised_to };
"""


def cedar_policies(domains: Iterable[DomainSpec]) -> str:
    """Return the rules as a Cedar policy set: `search` is asked of a Source, `read` of a Document in it.

    A source is `Source::"DOMAIN/ID"`: it may stand in several domains, each with a rule of its own.
    """
    blocks = (_domain(domain) for domain in sorted(domains, key=lambda one: one.domain))
    return "\n".join((_HEAD, *blocks, _RAISED))


def cedar_entities(domains: Iterable[DomainSpec], principals: Iterable[Principal] = ()) -> list[Entity]:
    """Return what the policies speak of, as Cedar's JSON: clearances, domains, sources and the principals given."""
    ordered = sorted(domains, key=lambda one: one.domain)
    return [
        *_clearances(),
        *(_entity("Domain", one.domain, title=one.title) for one in ordered),
        *(_source_entity(domain, source) for domain in ordered for source in domain.sources),
        *(_principal_entity(one) for one in principals),
    ]


def _domain(domain: DomainSpec) -> str:
    named = f"{domain.domain}: {domain.title}" if domain.title else domain.domain
    head = f"// {' '.join(named.split())}\n"
    return head + "\n".join(_policy(domain, source) for source in domain.sources)


def _policy(domain: DomainSpec, source: SourceSpec) -> str:
    name = _text(f"{domain.domain}/{source.id}")
    lines = [
        f"@id({name})\npermit (",
        '  principal,\n  action in [Action::"search", Action::"read"],',
        f"  resource in Source::{name}\n)",
        *(f"when {{ {condition} }}" for condition in dict.fromkeys(_conditions(domain, source))),
    ]
    return "\n".join(lines) + ";\n"


def _conditions(domain: DomainSpec, source: SourceSpec) -> Iterator[str]:
    rules = [rule for rule in (domain.access, source.access) if rule is not None]
    for rule in rules:
        yield from _of_rule(rule)
    if rules:
        yield from _cleared(source.classification)


def _of_rule(rule: AccessRule) -> Iterator[str]:
    named = [f"Role::{_text(role)}" for role in sorted(set(rule.roles))]
    named += [f"Group::{_text(group)}" for group in sorted(set(rule.groups))]
    if named:
        yield f"principal in [{', '.join(named)}]"
    elif rule.clearance is None:
        yield "false"  # it names nothing, and admits nobody
    if rule.clearance is not None:
        yield from _cleared(rule.clearance)


def _cleared(needed: Classification) -> Iterator[str]:
    """Yield the condition of a clearance; everybody is cleared for what is public."""
    if needed is not Classification.PUBLIC:
        yield f"principal in Clearance::{_text(needed)}"


def _clearances() -> Iterator[Entity]:
    for lower, one in zip((None, *Classification), Classification, strict=False):
        yield _entity("Clearance", one, *([("Clearance", lower)] if lower else []))


def _source_entity(domain: DomainSpec, source: SourceSpec) -> Entity:
    classification = {"__entity": _uid("Clearance", source.classification)}
    name, above = f"{domain.domain}/{source.id}", ("Domain", domain.domain)
    return _entity("Source", name, above, title=source.title, tier=source.tier, classification=classification)


def _principal_entity(one: Principal) -> Entity:
    roles = [("Role", role) for role in sorted(one.roles)]
    groups = [("Group", group) for group in sorted(one.groups)]
    return _entity("Principal", one.id, *roles, *groups, ("Clearance", one.clearance))


def _entity(kind: str, name: str, *parents: tuple[str, str], **attributes: Any) -> Entity:
    return {"uid": _uid(kind, name), "attrs": attributes, "parents": [_uid(*parent) for parent in parents]}


def _uid(kind: str, name: str) -> Mapping[str, str]:
    return {"type": kind, "id": str(name)}


def _text(value: str) -> str:
    """Return a text as Cedar writes it."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(one if one.isprintable() else f"\\u{{{ord(one):x}}}" for one in escaped) + '"'
