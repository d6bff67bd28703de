"""The access rules and decisions in words, and the access matrix as one HTML page."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from context_engine.apps.web.inert import html_text
from context_engine.core.models import (
    AccessReason,
    AccessRule,
    Classification,
    DomainSpec,
    Principal,
    SourceAccess,
    SourceSpec,
)
from context_engine.core.policy.access_review import AccessMatrix, Holder
from context_engine.core.text import counted

_TITLE: Final = "Who may search what"
_STYLE: Final = Path(__file__).with_name("access.css")


def access_page(matrix: AccessMatrix, domains: Sequence[DomainSpec], *, demo: bool = False) -> str:
    """Return a matrix as one HTML page that loads nothing and runs nothing.

    Args:
        matrix: the matrix of the domains.
        domains: their rules are written out.
        demo: whether the domains are the fictitious bank's; the page then says so.
    """
    from context_engine.evaluation.blocks import html_page

    note = "<p class=note>DEMO: an invented bank, none of it is true.</p>\n" if demo else ""
    policy = f" Policy <code>{html_text(matrix.policy_hash[:16])}</code>." if matrix.policy_hash else ""
    rows = counted(len(matrix.sources), "source")
    body = (
        f"<header>\n<h1>{_TITLE}</h1>\n<p class=lead>{rows} in {counted(len(domains), 'domain')}.{policy}</p>\n{note}"
        f"</header>\n<main>\n{_roles(matrix)}{_principals(matrix, domains)}{_rules(domains)}</main>\n"
    )
    return html_page(_TITLE, body, style=_STYLE.read_text("utf-8"))


def _roles(matrix: AccessMatrix) -> str:
    intro = "The lowest clearance that opens a source to a caller with only this role or group."
    heads = [_holder_html(holder) for holder in matrix.needed]
    cells = [[_least_html(needed[place]) for needed in matrix.needed.values()] for place in range(len(matrix.sources))]
    return _section("By role and group", intro, heads, _with_sources(matrix, cells))


def _principals(matrix: AccessMatrix, domains: Sequence[DomainSpec]) -> str:
    if not matrix.principals:
        return ""
    specs = {(domain.domain, source.id): (domain, source) for domain in domains for source in domain.sources}
    cells = []
    for place, row in enumerate(matrix.sources):
        domain, source = specs[row.domain, row.source.id]
        decided = [every[place] for every in matrix.principals.values()]
        cells.append([_may(decision, decision_words(decision, domain, source)) for decision in decided])
    heads = [html_text(principal.id) for principal in matrix.principals]
    who = "".join(f"<li>{html_text(principal_words(each))}</li>" for each in matrix.principals)
    intro = "The principals of access.yaml. Documents classified above a principal's clearance are withheld from it."
    return _section("By principal", intro, heads, _with_sources(matrix, cells), f"<ul>{who}</ul>\n")


def _rules(domains: Iterable[DomainSpec]) -> str:
    items = "".join(f"<div><dt>{name}</dt><dd>{rule}</dd></div>" for name, rule in _written(domains))
    listing = f"<dl>{items}</dl>" if items else "<p>No manifest has a rule.</p>"
    return f"<section>\n<h2>Rules</h2>\n{listing}\n</section>\n"


def _written(domains: Iterable[DomainSpec]) -> Iterator[tuple[str, str]]:
    for domain in domains:
        for name, rule in ((domain.domain, domain.access), *((source.id, source.access) for source in domain.sources)):
            if rule is not None:
                place = name if name == domain.domain and rule is domain.access else f"{domain.domain} · {name}"
                yield html_text(place), html_text(rule_words(rule))


def _with_sources(matrix: AccessMatrix, cells: Iterable[Iterable[str]]) -> Iterator[tuple[str, Iterable[str]]]:
    for row, row_cells in zip(matrix.sources, cells, strict=True):
        title = f"<small>{html_text(row.source.title)}</small>" if row.source.title else ""
        named = f"<th scope=row>{html_text(row.source.id)}{title}</th><td>{escape(str(row.source.classification))}</td>"
        yield f"<td>{html_text(row.domain)}</td>{named}", row_cells


def _section(
    title: str, intro: str, heads: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], after: str = ""
) -> str:
    columns = ("Domain", "Source", "Classification", *heads)
    head = "".join(f"<th scope=col>{name}</th>" for name in columns)
    body = "".join(f"<tr>{source}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n" for source, cells in rows)
    return (
        f"<section>\n<h2>{title}</h2>\n<p>{intro}</p>\n<div class=scroll><table><thead><tr>{head}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>\n{after}</section>\n"
    )


def _holder_html(holder: Holder | None) -> str:
    return "anyone" if holder is None else f"<small>{holder.kind}</small> {html_text(holder.name)}"


def _least_html(needed: Classification | None) -> str:
    return "<span class=never>never</span>" if needed is None else f"<span class=class-{needed.rank}>{needed}</span>"


def _may(decision: SourceAccess, why: str) -> str:
    word = "<b class=may>may</b>" if decision.allowed else "<b class=never>may not</b>"
    return f"{word}<small>{html_text(why)}</small>"


def rule_words(rule: AccessRule) -> str:
    """Describe the callers whom a rule admits.

    >>> rule_words(AccessRule(roles=("analyst", "auditor"), groups=("sg",), clearance="confidential"))
    'role analyst or auditor, or group sg; cleared for confidential'
    """
    memberships = [_any("role", rule.roles), _any("group", rule.groups)]
    parts = [", or ".join(filter(None, memberships))]
    if rule.clearance is not None:
        parts.append(f"cleared for {rule.clearance}")
    return "; ".join(filter(None, parts)) or "nobody"


def principal_words(principal: Principal) -> str:
    """Describe a principal: "desk: role analyst; group sg; cleared for internal"."""
    memberships = [
        f"{kind}{'s' * (len(names) != 1)} {', '.join(sorted(names))}"
        for kind, names in (("role", principal.roles), ("group", principal.groups))
        if names
    ]
    about = "; ".join([*(memberships or ["no role or group"]), f"cleared for {principal.clearance}"])
    return f"{principal.id}: {about}" if principal.id else about


def decision_words(decision: SourceAccess, domain: DomainSpec, source: SourceSpec) -> str:
    """Explain a decision: the condition that forbids the source, else the rules that admit the caller."""
    of_domain, of_source = domain.access, source.access
    if decision.reason is AccessReason.DOMAIN_RULE and of_domain is not None:
        return f"the domain requires {rule_words(of_domain)}"
    if decision.reason is AccessReason.SOURCE_RULE and of_source is not None:
        return f"the source requires {rule_words(of_source)}"
    if decision.reason is AccessReason.CLEARANCE:
        return f"the source is {source.classification}: that clearance is needed"
    if decision.reason is AccessReason.NO_RULE:
        return "no rule: open to everybody"
    rules = [f"{whose}: {rule_words(rule)}" for whose, rule in (("domain", of_domain), ("source", of_source)) if rule]
    return "; ".join(rules) or f"the policy says {decision.reason}"


def _any(kind: str, names: Iterable[str]) -> str:
    return f"{kind} {' or '.join(names)}" if names else ""
