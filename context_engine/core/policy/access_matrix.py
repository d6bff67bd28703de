"""Who may search what, as a table: for each role the clearance it needs, for each principal whether it may."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import NamedTuple

from context_engine.core.models import AccessRule, Classification, DomainSpec, Principal, SourceAccess, SourceSpec
from context_engine.core.protocols import AccessPolicy


class SearchedSource(NamedTuple):
    """A source as a domain registers it."""

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
        """Return somebody who has this alone."""
        held = frozenset((self.name,))
        return Principal(id=self.name, **{f"{self.kind}s": held}, clearance=clearance)


@dataclass(frozen=True, slots=True, kw_only=True)
class AccessMatrix:
    """Who may search what.

    Attributes:
        sources: the rows.
        needed: for each role and group, and for who has none (None), the least clearance that opens each source; None
            where none does.
        principals: for each principal what decides on each source.
        policy_hash: names the rules that decided.
    """

    sources: tuple[SearchedSource, ...]
    needed: Mapping[Holder | None, tuple[Classification | None, ...]]
    principals: Mapping[Principal, tuple[SourceAccess, ...]]
    policy_hash: str


def access_matrix(
    domains: Iterable[DomainSpec], policy: AccessPolicy, *, holders: Iterable[Holder], principals: Iterable[Principal]
) -> AccessMatrix:
    """Return what a policy decides for roles, groups and principals on every source of some domains."""
    domains = tuple(domains)
    anybody: tuple[Holder | None, ...] = (None, *holders)
    return AccessMatrix(
        sources=tuple(SearchedSource(domain.domain, source) for domain in domains for source in domain.sources),
        needed={one: tuple(_needed(one, domains, policy)) for one in anybody},
        principals={one: tuple(_decided(one, domains, policy)) for one in principals},
        policy_hash=policy.policy_hash,
    )


def rules_in(domains: Iterable[DomainSpec]) -> Iterator[AccessRule]:
    """Yield every rule of some domains and their sources."""
    for domain in domains:
        rules = (domain.access, *(source.access for source in domain.sources))
        yield from (rule for rule in rules if rule is not None)


def holders_in_rules(domains: Iterable[DomainSpec]) -> tuple[Holder, ...]:
    """Return the roles and groups that rules name, roles first, each sorted."""
    rules = tuple(rules_in(domains))
    roles = sorted({role for rule in rules for role in rule.roles})
    groups = sorted({group for rule in rules for group in rule.groups})
    return (*(Holder("role", role) for role in roles), *(Holder("group", group) for group in groups))


def _needed(
    holder: Holder | None, domains: Iterable[DomainSpec], policy: AccessPolicy
) -> Iterator[Classification | None]:
    nobody = Principal() if holder is None else holder.principal(Classification.PUBLIC)
    for domain in domains:
        opened = {one: policy.decide(replace(nobody, clearance=one), domain).allowed for one in Classification}
        for source in domain.sources:
            yield next((one for one, allowed in opened.items() if source.id in allowed), None)


def _decided(principal: Principal, domains: Iterable[DomainSpec], policy: AccessPolicy) -> Iterator[SourceAccess]:
    for domain in domains:
        yield from policy.decide(principal, domain).sources
