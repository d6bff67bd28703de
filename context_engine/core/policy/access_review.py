"""Access rules for reviewers: who may search what as a table, and the same rules in Cedar."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final, NamedTuple

from context_engine.core.models import AccessRule, Classification, DomainSpec, Principal, SourceAccess, SourceSpec
from context_engine.core.protocols import AccessPolicy


class SearchedSource(NamedTuple):
    domain: str
    source: SourceSpec


class Holder(NamedTuple):
    """A role or a group that a rule names.

    Attributes:
        kind: "role" or "group".
    """

    kind: str
    name: str

    def principal(self, clearance: Classification) -> Principal:
        """Return a principal with this role or group only."""
        own_name = frozenset((self.name,))
        return Principal(id=self.name, **{f"{self.kind}s": own_name}, clearance=clearance)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessMatrix:
    """Who may search which source.

    Attributes:
        sources: the rows.
        needed: the lowest clearance that opens each source, for each role and group, and for a principal with neither
            (None); None if no clearance opens it.
        principals: the decision on each source, for each principal.
        policy_hash: identifies the rules.
    """

    sources: tuple[SearchedSource, ...]
    needed: Mapping[Holder | None, tuple[Classification | None, ...]]
    principals: Mapping[Principal, tuple[SourceAccess, ...]]
    policy_hash: str


def access_matrix(
    domains: Iterable[DomainSpec], policy: AccessPolicy, *, holders: Iterable[Holder], principals: Iterable[Principal]
) -> AccessMatrix:
    """Return a policy's decisions for roles, groups and principals on every source of the domains."""
    domains = tuple(domains)
    anybody: tuple[Holder | None, ...] = (None, *holders)
    return AccessMatrix(
        sources=tuple(SearchedSource(domain.domain, source) for domain in domains for source in domain.sources),
        needed={holder: tuple(_needed(holder, domains, policy)) for holder in anybody},
        principals={principal: tuple(_decided(principal, domains, policy)) for principal in principals},
        policy_hash=policy.policy_hash,
    )


def rules_in(domains: Iterable[DomainSpec]) -> Iterator[AccessRule]:
    """Yield every rule of the domains and their sources."""
    for domain in domains:
        rules = (domain.access, *(source.access for source in domain.sources))
        yield from (rule for rule in rules if rule is not None)


def holders_in_rules(domains: Iterable[DomainSpec]) -> tuple[Holder, ...]:
    """Return the roles, then the groups, that rules name, each sorted."""
    rules = tuple(rules_in(domains))
    roles = sorted({role for rule in rules for role in rule.roles})
    groups = sorted({group for rule in rules for group in rule.groups})
    return (*(Holder("role", role) for role in roles), *(Holder("group", group) for group in groups))


def _needed(
    holder: Holder | None, domains: Iterable[DomainSpec], policy: AccessPolicy
) -> Iterator[Classification | None]:
    nobody = Principal() if holder is None else holder.principal(Classification.PUBLIC)
    for domain in domains:
        opened = {
            clearance: policy.decide(replace(nobody, clearance=clearance), domain).allowed
            for clearance in Classification
        }
        for source in domain.sources:
            yield next((clearance for clearance, allowed in opened.items() if source.id in allowed), None)


def _decided(principal: Principal, domains: Iterable[DomainSpec], policy: AccessPolicy) -> Iterator[SourceAccess]:
    for domain in domains:
        yield from policy.decide(principal, domain).sources


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
    """Return the rules as a Cedar policy set: `search` applies to a Source, `read` to a Document in it.

    There is one policy per source; Cedar also forbids by default what no policy permits. A source is
    `Source::"DOMAIN/ID"`, because several domains may register it, each with its own rule. A clearance is an entity
    that is a member of every lower clearance.
    """
    blocks = (_domain(domain) for domain in sorted(domains, key=lambda spec: spec.domain))
    return "\n".join((_HEAD, *blocks, _RAISED))


def cedar_entities(domains: Iterable[DomainSpec], principals: Iterable[Principal] = ()) -> list[Entity]:
    """Return the policies' entities as Cedar's JSON: clearances, domains, sources and the given principals."""
    ordered = sorted(domains, key=lambda domain: domain.domain)
    return [
        *_clearances(),
        *(_entity("Domain", domain.domain, title=domain.title) for domain in ordered),
        *(_source_entity(domain, source) for domain in ordered for source in domain.sources),
        *(_principal_entity(principal) for principal in principals),
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
        yield "false"  # a rule that names nothing admits nobody
    if rule.clearance is not None:
        yield from _cleared(rule.clearance)


def _cleared(needed: Classification) -> Iterator[str]:
    """Yield the condition for a clearance; everybody is cleared for public sources."""
    if needed is not Classification.PUBLIC:
        yield f"principal in Clearance::{_text(needed)}"


def _clearances() -> Iterator[Entity]:
    for lower, classification in zip((None, *Classification), Classification, strict=False):
        yield _entity("Clearance", classification, *([("Clearance", lower)] if lower else []))


def _source_entity(domain: DomainSpec, source: SourceSpec) -> Entity:
    classification = {"__entity": _uid("Clearance", source.classification)}
    name, above = f"{domain.domain}/{source.id}", ("Domain", domain.domain)
    return _entity("Source", name, above, title=source.title, tier=source.tier, classification=classification)


def _principal_entity(principal: Principal) -> Entity:
    roles = [("Role", role) for role in sorted(principal.roles)]
    groups = [("Group", group) for group in sorted(principal.groups)]
    return _entity("Principal", principal.id, *roles, *groups, ("Clearance", principal.clearance))


def _entity(kind: str, name: str, *parents: tuple[str, str], **attributes: Any) -> Entity:
    return {"uid": _uid(kind, name), "attrs": attributes, "parents": [_uid(*parent) for parent in parents]}


def _uid(kind: str, name: str) -> Mapping[str, str]:
    return {"type": kind, "id": str(name)}


def _text(value: str) -> str:
    """Return a string literal in Cedar's syntax."""
    escaped = value.replace("\\", "\\\\").replace('"', '\\"')
    return '"' + "".join(char if char.isprintable() else f"\\u{{{ord(char):x}}}" for char in escaped) + '"'
