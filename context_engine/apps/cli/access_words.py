"""What a person reads for a rule, a principal and what was decided."""

from __future__ import annotations

from collections.abc import Iterable

from context_engine.core.models import (
    AccessReason,
    AccessRule,
    DomainSpec,
    Principal,
    SourceAccess,
    SourceSpec,
)


def rule_words(rule: AccessRule) -> str:
    """Return whom a rule admits.

    >>> rule_words(AccessRule(roles=("analyst", "auditor"), groups=("sg",), clearance="confidential"))
    'role analyst or auditor, or group sg; cleared for confidential'
    """
    held = [_any("role", rule.roles), _any("group", rule.groups)]
    parts = [", or ".join(filter(None, held))]
    if rule.clearance is not None:
        parts.append(f"cleared for {rule.clearance}")
    return "; ".join(filter(None, parts)) or "nobody"


def principal_words(principal: Principal) -> str:
    """Return what a principal has: "desk: role analyst; group sg; cleared for internal"."""
    held = [
        f"{kind}{'s' * (len(names) != 1)} {', '.join(sorted(names))}"
        for kind, names in (("role", principal.roles), ("group", principal.groups))
        if names
    ]
    about = "; ".join([*(held or ["no role or group"]), f"cleared for {principal.clearance}"])
    return f"{principal.id}: {about}" if principal.id else about


def decision_words(one: SourceAccess, domain: DomainSpec, source: SourceSpec) -> str:
    """Return why a source may be searched or not: the condition that forbids it, else the rules that admit."""
    of_domain, of_source = domain.access, source.access
    if one.reason is AccessReason.DOMAIN_RULE and of_domain is not None:
        return f"the domain asks for {rule_words(of_domain)}"
    if one.reason is AccessReason.SOURCE_RULE and of_source is not None:
        return f"the source asks for {rule_words(of_source)}"
    if one.reason is AccessReason.CLEARANCE:
        return f"the source is {source.classification}: that clearance is needed"
    if one.reason is AccessReason.NO_RULE:
        return "no rule: open to everybody"
    rules = [f"{whose}: {rule_words(rule)}" for whose, rule in (("domain", of_domain), ("source", of_source)) if rule]
    return "; ".join(rules) or f"the policy says {one.reason}"


def _any(kind: str, names: Iterable[str]) -> str:
    return f"{kind} {' or '.join(names)}" if names else ""
