"""Who may search what: the rules of the manifests, decided before any source is asked.

A domain's rule, a source's rule and, where one of the two exists, the clearance for the source's classification must
all hold. Without a rule a source is open. A document may raise its classification and then needs that clearance, with
or without a rule. A source that a principal may not search appears not to exist."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, Generic, TypeVar

from context_engine.core.models import (
    AccessClass,
    AccessDecision,
    AccessReason,
    AccessRule,
    AccessScope,
    Classification,
    DomainSpec,
    Principal,
    Registry,
    SourceAccess,
    SourceSpec,
)
from context_engine.core.protocols import AccessPolicy
from context_engine.errors import PolicyError

_MOST_PRINCIPALS: Final = 1024


def admits(rule: AccessRule, principal: Principal) -> bool:
    """Return whether a rule admits a principal; the classification of the source is a separate condition.

    The principal needs one of the roles or groups, and the clearance. An empty rule admits nobody.
    """
    named = bool(rule.roles or rule.groups)
    if named and principal.roles.isdisjoint(rule.roles) and principal.groups.isdisjoint(rule.groups):
        return False
    if rule.clearance is None:
        return named
    return principal.clearance.rank >= rule.clearance.rank


def access_class(rules: str, declared: Classification, claimed: Classification | None) -> AccessClass:
    """Return the class of a document.

    Args:
        claimed: the document's own classification; it counts if it is higher.
    """
    effective = declared if claimed is None or claimed.rank <= declared.rank else claimed
    raised = effective.rank > declared.rank
    return AccessClass(rules, effective if rules or raised else None)


def has_rules(domains: Iterable[DomainSpec]) -> bool:
    """Return whether any domain or source has a rule."""
    return any(domain.access or any(source.access for source in domain.sources) for domain in domains)


class OpenAccess:
    """The policy without rules: everybody may search everything; an `AccessPolicy`."""

    policy_hash = ""

    def decide(self, principal: Principal, domain: DomainSpec) -> AccessDecision:
        """Allow every source of the domain."""
        every = tuple(SourceAccess(source.id, True, AccessReason.NO_RULE) for source in domain.sources)
        return AccessDecision(principal=principal, domain=domain.domain, sources=every)

    def rules_of(self, source_id: str) -> str:
        """Return "": no source has rules."""
        return ""


OPEN_ACCESS: Final = OpenAccess()


class ManifestPolicy:
    """The rules of the manifests; an `AccessPolicy`. Safe for many threads.

    Args:
        domains: the whole registry; a source that several domains register is open to everyone whom one of the domains
            admits.
    """

    def __init__(self, domains: Mapping[str, DomainSpec]) -> None:
        self._rules = {
            source: _Rules.of(registrations) for source, registrations in _registered(domains.values()).items()
        }
        canonical = {name: _published(domain) for name, domain in domains.items()}
        self.policy_hash = hashlib.sha256(_canonical(canonical).encode()).hexdigest()
        self._scope = lru_cache(maxsize=_MOST_PRINCIPALS)(self._scope_of)

    def decide(self, principal: Principal, domain: DomainSpec) -> AccessDecision:
        """Return which sources of a domain a principal may search."""
        entered = domain.access is None or admits(domain.access, principal)
        return AccessDecision(
            principal=principal,
            domain=domain.domain,
            sources=tuple(_decided(principal, domain, source, entered=entered) for source in domain.sources),
            scope=self._scope(principal),
            policy_hash=self.policy_hash,
        )

    def rules_of(self, source_id: str) -> str:
        """Return all rules of a source as canonical text, equal for sources that admit the same; "" for none."""
        rules = self._rules.get(source_id)
        return "" if rules is None else rules.text

    def _scope_of(self, principal: Principal) -> AccessScope:
        admitting = frozenset(rules.text for rules in self._rules.values() if rules.text and rules.admit(principal))
        return AccessScope(rules=admitting, clearance=principal.clearance)


class _Rules:
    """All rules of one source.

    Attributes:
        text: canonical form; "" if the source is open.
    """

    def __init__(self, own: AccessRule | None, domains: tuple[AccessRule, ...]) -> None:
        self._own, self._domains = own, domains
        alternatives = {_canonical(plain): plain for plain in map(_plain, domains)}
        parts = {"source": _plain(own), "domains": [alternatives[text] for text in sorted(alternatives)] or None}
        self.text = _canonical(parts) if own or domains else ""

    @classmethod
    def of(cls, registrations: Sequence[tuple[DomainSpec, SourceSpec]]) -> _Rules:
        """Return the rules of a source, from all domains that register it.

        A domain without a rule opens the source to everyone whom the source's own rule admits.
        """
        outer = tuple(dict.fromkeys(domain.access for domain, _ in registrations if domain.access is not None))
        is_open = any(domain.access is None for domain, _ in registrations)
        return cls(
            next((source.access for _, source in registrations if source.access), None), () if is_open else outer
        )

    def admit(self, principal: Principal) -> bool:
        """Return whether the source's rule and the rule of at least one of its domains admit a principal."""
        by_domain = not self._domains or any(admits(rule, principal) for rule in self._domains)
        return by_domain and (self._own is None or admits(self._own, principal))


def _decided(principal: Principal, domain: DomainSpec, source: SourceSpec, *, entered: bool) -> SourceAccess:
    if not entered:
        return SourceAccess(source.id, False, AccessReason.DOMAIN_RULE)
    if source.access is not None and not admits(source.access, principal):
        return SourceAccess(source.id, False, AccessReason.SOURCE_RULE)
    if source.access is None and domain.access is None:
        return SourceAccess(source.id, True, AccessReason.NO_RULE)
    cleared = principal.clearance.rank >= source.classification.rank
    return SourceAccess(source.id, cleared, AccessReason.ADMITTED if cleared else AccessReason.CLEARANCE)


def _registered(domains: Iterable[DomainSpec]) -> dict[str, list[tuple[DomainSpec, SourceSpec]]]:
    """Return, by source id, each domain that registers the source, with its declaration there."""
    by_source: dict[str, list[tuple[DomainSpec, SourceSpec]]] = {}
    for domain in domains:
        for source in domain.sources:
            by_source.setdefault(source.id, []).append((domain, source))
    return by_source


def _published(domain: DomainSpec) -> dict[str, Any]:
    sources = {source.id: [_plain(source.access), str(source.classification)] for source in domain.sources}
    return {"access": _plain(domain.access), "sources": sources}


def _plain(rule: AccessRule | None) -> dict[str, Any] | None:
    """Return a rule as JSON, in the same form for equal rules."""
    if rule is None:
        return None
    clearance = None if rule.clearance is None else str(rule.clearance)
    return {"roles": sorted(set(rule.roles)), "groups": sorted(set(rule.groups)), "clearance": clearance}


def _canonical(value: Any) -> str:
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


_MOST_VIEWS: Final = 1024
R = TypeVar("R", bound=Registry)
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class RegistryView(Generic[R]):
    """The part of the registry that one principal may know.

    Attributes:
        registry: the searchable domains, each with its permitted sources only.
        decisions: of every registered domain, for the record.
    """

    registry: R
    decisions: Mapping[str, AccessDecision]


class AccessViews(Generic[R]):
    """The views of a registry, one per principal. Safe for many threads.

    Args:
        registry: the whole registry.
        policy: decides; asked again when its `policy_hash` changes.
    """

    def __init__(self, registry: R, policy: AccessPolicy) -> None:
        self._registry, self._policy = registry, policy
        self._made = lru_cache(maxsize=_MOST_VIEWS)(self._view)

    def of(self, principal: Principal) -> RegistryView[R]:
        """Return the part of the registry that a principal may know.

        Raises:
            PolicyError: the policy failed, so nothing may be searched.
        """
        return self._made(principal, _asked(lambda: self._policy.policy_hash))

    def _view(self, principal: Principal, _policy_hash: str) -> RegistryView[R]:
        domains = self._registry.domains
        decisions = _asked(lambda: {name: self._policy.decide(principal, domain) for name, domain in domains.items()})
        if isinstance(self._policy, OpenAccess):
            return RegistryView(self._registry, decisions)
        seen = {name: _reduced(domain, decisions[name]) for name, domain in domains.items()}
        known = {name: domain for name, domain in seen.items() if domain is not None}
        return RegistryView(self._registry.only(known), decisions)


def visible(registry: R, policy: AccessPolicy, principal: Principal) -> R:
    """Return the part of a registry that a principal may know.

    Domains without a permitted source are omitted, and so are denied sources, settings of a domain that name them, and
    manifests that cannot be used: they have no rule to decide by.

    Raises:
        PolicyError: the policy failed.
    """
    return AccessViews(registry, policy).of(principal).registry


def _asked(ask: Callable[[], T]) -> T:
    """Return a policy's answer. The policy may run on another server; any exception denies access."""
    try:
        return ask()
    except Exception as error:
        raise PolicyError("the access policy could not decide, so nothing is searched") from error


def _reduced(domain: DomainSpec, decision: AccessDecision) -> DomainSpec | None:
    """Return a domain with its permitted sources only; None if there are none."""
    allowed = decision.allowed
    sources = tuple(source for source in domain.sources if source.id in allowed)
    if len(sources) == len(domain.sources):
        return domain
    if not sources:
        return None
    reduced = domain.model_copy(update={"sources": sources})
    return reduced.model_copy(update={"settings": _settings(reduced)})


def _settings(domain: DomainSpec) -> Mapping[str, object]:
    """Return a domain's settings without names of denied sources; `sources` is dropped if it has no other name."""
    named, known = domain.settings.get("sources"), frozenset(domain.names)
    if not isinstance(named, list | tuple) or known.issuperset(named):
        return domain.settings
    kept = [name for name in named if name in known]
    others = {key: value for key, value in domain.settings.items() if key != "sources"}
    return {**others, "sources": kept} if kept else others
