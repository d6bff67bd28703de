"""The access matrix as a page that can be sent to a reviewer: every source, and who may search it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from context_engine.apps.cli.access_words import decision_words, principal_words, rule_words
from context_engine.apps.cli.console import clean
from context_engine.apps.cli.words import counted
from context_engine.core.models import Classification, DomainSpec, SourceAccess
from context_engine.core.policy.access_review import AccessMatrix, Holder

_TITLE: Final = "Who may search what"
_STYLE: Final = Path(__file__).with_name("access.css")


def access_page(matrix: AccessMatrix, domains: Sequence[DomainSpec], *, demo: bool = False) -> str:
    """Return a matrix as one HTML page that loads nothing and runs nothing.

    Args:
        matrix: of the domains.
        domains: their rules are written out.
        demo: the domains are the fictitious bank's, and the page says so.
    """
    from context_engine.evaluation.html import html_page

    note = "<p class=note>DEMO: an invented bank, none of it is true.</p>\n" if demo else ""
    policy = f" Policy <code>{_text(matrix.policy_hash[:16])}</code>." if matrix.policy_hash else ""
    rows = counted(len(matrix.sources), "source")
    body = (
        f"<header>\n<h1>{_TITLE}</h1>\n<p class=lead>{rows} in {counted(len(domains), 'domain')}.{policy}</p>\n{note}"
        f"</header>\n<main>\n{_roles(matrix)}{_principals(matrix, domains)}{_rules(domains)}</main>\n"
    )
    return html_page(_TITLE, body, style=_STYLE.read_text("utf-8"))


def _roles(matrix: AccessMatrix) -> str:
    told = "The least clearance that opens a source to whoever has the role or group alone."
    heads = [_holder(one) for one in matrix.needed]
    cells = [[_least(needed[place]) for needed in matrix.needed.values()] for place in range(len(matrix.sources))]
    return _section("By role and group", told, heads, _with_sources(matrix, cells))


def _principals(matrix: AccessMatrix, domains: Sequence[DomainSpec]) -> str:
    if not matrix.principals:
        return ""
    specs = {(domain.domain, source.id): (domain, source) for domain in domains for source in domain.sources}
    cells = []
    for place, row in enumerate(matrix.sources):
        domain, source = specs[row.domain, row.source.id]
        decided = [every[place] for every in matrix.principals.values()]
        cells.append([_may(one, decision_words(one, domain, source)) for one in decided])
    heads = [_text(one.id) for one in matrix.principals]
    who = "".join(f"<li>{_text(principal_words(one))}</li>" for one in matrix.principals)
    told = "The principals of access.yaml. Documents that raise their classification are withheld above the clearance."
    return _section("By principal", told, heads, _with_sources(matrix, cells), f"<ul>{who}</ul>\n")


def _rules(domains: Iterable[DomainSpec]) -> str:
    items = "".join(f"<div><dt>{name}</dt><dd>{rule}</dd></div>" for name, rule in _written(domains))
    held = f"<dl>{items}</dl>" if items else "<p>No manifest has a rule.</p>"
    return f"<section>\n<h2>Rules</h2>\n{held}\n</section>\n"


def _written(domains: Iterable[DomainSpec]) -> Iterator[tuple[str, str]]:
    for domain in domains:
        for name, rule in ((domain.domain, domain.access), *((one.id, one.access) for one in domain.sources)):
            if rule is not None:
                place = name if name == domain.domain and rule is domain.access else f"{domain.domain} · {name}"
                yield _text(place), _text(rule_words(rule))


def _with_sources(matrix: AccessMatrix, cells: Iterable[Iterable[str]]) -> Iterator[tuple[str, Iterable[str]]]:
    for row, held in zip(matrix.sources, cells, strict=True):
        title = f"<small>{_text(row.source.title)}</small>" if row.source.title else ""
        named = f"<th scope=row>{_text(row.source.id)}{title}</th><td>{escape(str(row.source.classification))}</td>"
        yield f"<td>{_text(row.domain)}</td>{named}", held


def _section(
    title: str, told: str, heads: Iterable[str], rows: Iterable[tuple[str, Iterable[str]]], after: str = ""
) -> str:
    columns = ("Domain", "Source", "Classification", *heads)
    head = "".join(f"<th scope=col>{name}</th>" for name in columns)
    body = "".join(f"<tr>{source}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>\n" for source, cells in rows)
    return (
        f"<section>\n<h2>{title}</h2>\n<p>{told}</p>\n<div class=scroll><table><thead><tr>{head}</tr></thead>\n"
        f"<tbody>{body}</tbody></table></div>\n{after}</section>\n"
    )


def _holder(one: Holder | None) -> str:
    return "anyone" if one is None else f"<small>{one.kind}</small> {_text(one.name)}"


def _least(needed: Classification | None) -> str:
    return "<span class=never>never</span>" if needed is None else f"<span class=class-{needed.rank}>{needed}</span>"


def _may(one: SourceAccess, why: str) -> str:
    word = "<b class=may>may</b>" if one.allowed else "<b class=never>may not</b>"
    return f"{word}<small>{_text(why)}</small>"


def _text(value: str) -> str:
    return escape(clean(" ".join(value.split())))
