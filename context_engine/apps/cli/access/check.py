"""`access check`, `access matrix` and `policy export`: who may search what, and the rules."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from pathlib import Path
from typing import Any, Final, NamedTuple

import click
from rich.cells import cell_len
from rich.text import Text

from context_engine.apps.cli.app import NOT_ANSWERED
from context_engine.apps.cli.console import (
    note,
    out,
    print_json,
    print_line,
    print_table,
    publish,
    styled,
    write_text,
    written,
)
from context_engine.apps.cli.context import CliContext, ConfigLocation, operator_context, with_location
from context_engine.apps.cli.options import F, gathered, with_json, with_page
from context_engine.apps.cli.words import sign
from context_engine.apps.web.files.access import access_page, decision_words, principal_words
from context_engine.apps.web.inert import clean
from context_engine.core.models import (
    NOBODY,
    AccessDecision,
    AccessRule,
    Classification,
    DomainSpec,
    Principal,
    SourceAccess,
    SourceSpec,
)
from context_engine.core.policy.access import OpenAccess
from context_engine.core.policy.access_review import (
    AccessMatrix,
    Holder,
    access_matrix,
    cedar_entities,
    cedar_policies,
    holders_in_rules,
)
from context_engine.errors import InvalidRequest, nearest

_Column = tuple[str, list[Text]]


def print_matrix(matrix: AccessMatrix) -> None:
    """Print the matrix in as many tables as its columns need at the width of the terminal."""
    console = out()
    columns = [
        (clean(_heading(holder)), [_least(least) for least in needed]) for holder, needed in matrix.needed.items()
    ]
    for principal, decisions in matrix.principals.items():
        columns.append((clean(principal.id), [sign(decision.allowed) for decision in decisions]))
    left = console.width - sum(map(_width, rows := _row_columns(matrix)))
    while columns:
        fitting = _fitting(columns, left)
        shown = (*rows, *columns[:fitting])
        print_table((heading for heading, _ in shown), zip(*(cells for _, cells in shown), strict=True))
        print_line()
        columns = columns[fitting:]
    print_line("For a role or group: the lowest clearance that opens the source to it alone; –: none does.", "dim")
    if matrix.policy_hash:
        print_line(f"policy {matrix.policy_hash}", "dim")


def _row_columns(matrix: AccessMatrix) -> list[_Column]:
    """Return the columns that name the source of each row."""
    return [
        ("domain", [Text(row.domain) for row in matrix.sources]),
        ("source", [Text(row.source.id) for row in matrix.sources]),
        ("is", [Text(str(row.source.classification), "dim") for row in matrix.sources]),
    ]


def _fitting(columns: Sequence[_Column], width: int) -> int:
    """Return how many columns fit side by side; at least one."""
    ends = accumulate(map(_width, columns))
    return max(1, sum(end <= width for end in ends))


def _width(column: _Column) -> int:
    """Return the minimum width of a column; a heading may be broken between words, but not inside one."""
    heading, cells = column
    return 2 + max(map(cell_len, (*heading.split(), *(cell.plain for cell in cells))), default=0)


def _heading(holder: Holder | None) -> str:
    return "anyone" if holder is None else f"{holder.kind} {holder.name}"


def _least(clearance: Classification | None) -> Text:
    return Text("–", "dim") if clearance is None else Text(str(clearance))


_OPTIONS: Final = (
    click.option("--as", "name", metavar="NAME", help="A principal of access.yaml, else a role."),
    click.option("--role", "roles", multiple=True, metavar="ROLE", help="A further role."),
    click.option("--group", "groups", multiple=True, metavar="GROUP", help="A further group."),
    click.option(
        "--clearance",
        type=click.Choice(list(Classification), case_sensitive=False),
        help="Replaces the principal's clearance; with a role only: internal.",
    ),
)


class Somebody(NamedTuple):
    """The options that describe a caller.

    Attributes:
        name: a principal or a role; None: neither.
        clearance: None: the principal's, else internal.
    """

    name: str | None
    roles: tuple[str, ...]
    groups: tuple[str, ...]
    clearance: Classification | None


def with_somebody(command: F) -> F:
    """Give a command the options --as, --role, --group and --clearance, as one argument `somebody`."""

    def gather(**options: Any) -> Any:
        name, roles, groups, clearance = (options.pop(key) for key in ("name", "roles", "groups", "clearance"))
        described = Somebody(name, roles, groups, Classification(clearance) if clearance else None)
        return command(somebody=described, **options)

    return gathered(command, gather, *_OPTIONS)  # type: ignore[no-any-return]


def principal_of(context: CliContext, described: Somebody) -> Principal:
    """Resolve --as, --role, --group and --clearance to a principal; `NOBODY` if none of them is given.

    Raises:
        InvalidRequest: there is neither a principal nor a role with this name.
    """
    from context_engine.settings.access_file import MANIFEST_POLICY

    principals, ruled = context.setup.config.principals, holders_in_rules(context.registry.domains.values())
    if principals.policy == MANIFEST_POLICY:
        _note_unruled(described, ruled)
    named = _called(described, principals.named, ruled)
    return Principal(
        id=named.id,
        roles=named.roles.union(described.roles),
        groups=named.groups.union(described.groups),
        clearance=described.clearance or named.clearance,
    )


def _called(described: Somebody, named: Mapping[str, Principal], ruled: Iterable[Holder]) -> Principal:
    """Return the principal with this name, else a principal with only this role; without a name, one without roles."""
    name = described.name
    if name is None:
        return Principal(clearance=Classification.INTERNAL) if described.roles or described.groups else NOBODY
    if name in named:
        return named[name]
    roles = {holder.name for holder in ruled if holder.kind == "role"}
    roles |= {role for principal in named.values() for role in principal.roles}
    if name not in roles:
        raise InvalidRequest(f"no principal or role is called {name!r}.{nearest(name, [*named, *roles])}")
    return Principal(roles=frozenset((name,)), clearance=Classification.INTERNAL)


def _note_unruled(described: Somebody, ruled: Iterable[Holder]) -> None:
    """Note each role or group that no rule names: it opens nothing, and may be misspelt."""
    for kind, names_given in (("role", described.roles), ("group", described.groups)):
        names = [holder.name for holder in ruled if holder.kind == kind]
        for name in names_given:
            if name not in names:
                note(f"no rule names {kind} {name!r}.{nearest(name, names)}", style="yellow")


_OPEN: Final = "No manifest has a rule and there is no access.yaml: everybody may search everything."

CHECK: Final = """\b
Examples:
  context-engine access check --as npa-desk
  context-engine access check --role npa-analyst --group singapore --clearance confidential -d NPA
"""


def access_context(location: ConfigLocation) -> CliContext:
    """Return the configuration for an operator's command; note if nothing in it restricts anybody.

    Raises:
        InvalidRequest: the user is no operator.
    """
    context = operator_context(location)
    if isinstance(context.setup.access, OpenAccess):
        note(_OPEN)
    return context


@click.command(epilog=CHECK)
@with_somebody
@click.option("--domain", "-d", metavar="NAME", help="This domain alone.")
@with_json
@with_location
def check(location: ConfigLocation, somebody: Somebody, domain: str | None, as_json: bool) -> int:
    """Show the sources that a caller may search, and the rules that decide.

    Describe the caller by a principal, or by roles, groups and a clearance. Without these options it is a caller whom
    access.yaml does not name. Exit code 4: nothing may be searched.
    """
    context = access_context(location)
    principal = principal_of(context, somebody)
    domains = _domains(context, domain)
    decisions = [context.setup.access.decide(principal, spec) for spec in domains]
    if as_json:
        publish({**_published(principal, domains, decisions), "demo": context.demo})
    else:
        _print(principal, domains, decisions)
    return 0 if any(decision.allowed for decision in decisions) else NOT_ANSWERED


@click.command(epilog="\b\nExample:\n  context-engine access matrix --html access.html")
@click.option("--domain", "-d", metavar="NAME", help="This domain alone.")
@with_page
@with_json
@with_location
def matrix(location: ConfigLocation, domain: str | None, page: Path | None, as_json: bool) -> None:
    """Show every source with the callers who may search it.

    For each role and group in a rule: the lowest clearance that opens the source to a caller with only this role or
    group. For each principal of access.yaml: whether it may search the source.
    """
    context = access_context(location)
    domains = _domains(context, domain)
    access = access_matrix(
        domains,
        context.setup.access,
        holders=holders_in_rules(domains),
        principals=context.setup.config.principals.named.values(),
    )
    if page is not None:
        written(page, access_page(access, domains, demo=context.demo))
    if as_json:
        publish({**_matrix_rows(access), "demo": context.demo})
    elif page is None:
        print_matrix(access)


def _domains(context: CliContext, only: str | None) -> list[DomainSpec]:
    """Return the domains to show; note each unreadable manifest, whose rules are unknown."""
    registry = context.registry
    if only is not None:
        return [registry.domain(only)]
    for problem in registry.problems:
        note(f"left out: {problem}", style="yellow")
    return [domain for _, domain in sorted(registry.domains.items())]


def _published(
    principal: Principal, domains: Sequence[DomainSpec], decisions: Sequence[AccessDecision]
) -> dict[str, Any]:
    return {
        "principal": _published_principal(principal),
        "policy_hash": next((decision.policy_hash for decision in decisions), ""),
        "domains": [
            {
                "domain": domain.domain,
                "rule": _published_rule(domain.access),
                "sources": [_published_source(source, domain) for source in decision.sources],
            }
            for domain, decision in zip(domains, decisions, strict=True)
        ],
    }


def _published_source(decision: SourceAccess, domain: DomainSpec) -> dict[str, Any]:
    source = _source(domain, decision)
    return {
        **decision._asdict(),
        "title": source.title,
        "classification": str(source.classification),
        "rule": _published_rule(source.access),
    }


def _published_rule(rule: AccessRule | None) -> dict[str, Any] | None:
    return None if rule is None else rule.model_dump(mode="json")


def _published_principal(principal: Principal) -> dict[str, Any]:
    return {
        "id": principal.id,
        "roles": sorted(principal.roles),
        "groups": sorted(principal.groups),
        "clearance": str(principal.clearance),
    }


def _source(domain: DomainSpec, decision: SourceAccess) -> SourceSpec:
    return next(source for source in domain.sources if source.id == decision.source_id)


def _print(principal: Principal, domains: Sequence[DomainSpec], decisions: Sequence[AccessDecision]) -> None:
    print_line(principal_words(principal), "bold")
    for domain, decision in zip(domains, decisions, strict=True):
        print_line()
        print_line(f"{domain.domain}  {domain.title}".rstrip())
        rows = []
        for decided in decision.sources:
            source = _source(domain, decided)
            words = decision_words(decided, domain, source)
            rows.append((sign(decided.allowed), source.id, styled((str(source.classification), "dim")), words))
        print_table(("",) * 4, rows, indented=True, header=False)
    print_line()
    if any(decision.scope is not None for decision in decisions):
        if principal.clearance is not Classification.RESTRICTED:
            print_line(f"Documents that raise their classification above {principal.clearance} are withheld.", "dim")
        print_line(f"policy {decisions[0].policy_hash}", "dim")


def _matrix_rows(matrix_shown: AccessMatrix) -> dict[str, Any]:
    """Return the JSON form of a matrix, with one object per source."""
    rows = [
        {
            "domain": row.domain,
            "source": row.source.id,
            "classification": str(row.source.classification),
            "clearance_needed": [
                {**(holder._asdict() if holder else {"kind": None, "name": None}), "least": needed[place]}
                for holder, needed in matrix_shown.needed.items()
            ],
            "principals": {
                principal.id: {"allowed": decided[place].allowed, "reason": decided[place].reason}
                for principal, decided in matrix_shown.principals.items()
            },
        }
        for place, row in enumerate(matrix_shown.sources)
    ]
    return {"policy_hash": matrix_shown.policy_hash, "sources": rows}


@click.group()
def policy() -> None:
    """Export the access rules; for an operator, once there is an access.yaml."""


@policy.command(
    epilog="\b\nExamples:\n  context-engine policy export --cedar > rules.cedar\n"
    "  context-engine policy export --cedar --entities > entities.json"
)
@click.option("--cedar", is_flag=True, required=True, help="Write them as Cedar policies.")
@click.option(
    "--entities",
    is_flag=True,
    help="Write what the policies name instead: clearances, sources and principals, as JSON.",
)
@with_location
def export(location: ConfigLocation, cedar: bool, entities: bool) -> None:
    """Write the manifests' rules for reviewers and for tools that analyse them."""
    from context_engine.settings.access_file import MANIFEST_POLICY

    context = access_context(location)
    decides = context.setup.config.principals.policy
    if decides != MANIFEST_POLICY:
        raise InvalidRequest(
            f"the policy {decides!r} decides here, not the manifests' rules: export it where it is defined"
        )
    domains = tuple(context.registry.domains.values())
    if entities:
        principals = context.setup.config.principals.named.values()
        print_json(cedar_entities(domains, principals))
    else:
        write_text(cedar_policies(domains))
