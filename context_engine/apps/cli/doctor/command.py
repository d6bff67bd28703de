"""`context-engine doctor`: check that every source can be searched."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click
from rich.text import Text

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import clean, out, print_json, show, table
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context, with_location
from context_engine.apps.cli.doctor.checks import (
    ModelReport,
    adapter_report,
    adapter_text,
    audit_lines,
    blend_notes,
    model_reports,
    privacy_lines,
    privacy_report,
    service_lines,
    service_report,
)
from context_engine.apps.cli.doctor.external import external_is_good
from context_engine.core.models import Examination, Notice
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.core.models import ScopeThreshold
    from context_engine.wiring.examine import ExaminedSource


SAMPLE: Final = "approval limit policy"
EXAMINE_S: Final = 20.0
"""For an examination, which may ask several things of each dataset; a search has the time of its domain beside."""

EPILOG: Final = """\b
Examples:
  context-engine doctor
  context-engine doctor --domain NPA --no-query --json
  context-engine doctor --external https://dify.example.com/e/abc --domain NPA --token-file token.txt

\b
Exit code: 0 every source can be searched, every model used, personal data masked and searches recorded where they
should be, and no token keeps the service from starting; 1 one cannot, 2 usage or configuration.
With --external: 0 Dify would register it and find something to show, 1 it would not.
"""


@click.command(epilog=EPILOG)
@click.option("--domain", "-d", metavar="NAME", help="This domain alone.")
@click.option("--no-query", is_flag=True, help="Ask no sample query and try no model.")
@click.option("--query", metavar="TEXT", default=SAMPLE, show_default=True, help="The sample query.")
@click.option("--external", metavar="URL", help="Play Dify's questions to an External Knowledge API instead.")
@click.option("--token-env", metavar="NAME", help="The variable that holds its access token.")
@click.option("--token-file", metavar="FILE", help="The file that holds its access token.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_location
def doctor(
    location: ConfigLocation,
    domain: str | None,
    no_query: bool,
    query: str,
    external: str | None,
    token_env: str | None,
    token_file: str | None,
    as_json: bool,
) -> None:
    """Ask every source of every domain whether it can be searched, and as its manifest says.

    The embedder and the reranker of the configuration are tried once: without its model a search goes on, but worse.
    What opens the service is said, and the keys of its identity provider are fetched.

    With --external: ask an External Knowledge API, such as the plugin's endpoint, what Dify asks when it is
    registered and when it is searched, and say what Dify would make of the answers. Its address is the one given to
    Dify, without /retrieval.
    """
    if not query.strip():
        raise InvalidRequest("--query is empty: give some words, or --no-query")
    if external is not None:
        sample = None if no_query else query
        good = external_is_good(
            external, token_env=token_env, token_file=token_file, domain=domain, query=sample, as_json=as_json
        )
        click.get_current_context().exit(0 if good else FAILURE)
    if token_env is not None or token_file is not None:
        raise InvalidRequest("--token-env and --token-file belong to --external")
    from context_engine.wiring.audit_report import audit_report

    context = open_context(location, operator=True)
    reports = list(_reports(context, domain, None if no_query else query))
    setup = context.setup
    models = [] if no_query else list(model_reports(setup, setup.models(context.data_dir)))
    scope, adapters = _scope(context, domain), adapter_report(context, domain)
    notes = [*_notes(reports), *blend_notes(context, adapters, domain)]
    access, privacy = _access(context), privacy_report(setup)
    audit, service = audit_report(setup, context.data_dir), service_report(context)
    ok = all(one.ok for one in reports) and all(one.ok for one in models)
    ok = ok and privacy.problem is None and audit.problem is None and service.problem is None
    if as_json:
        published = {
            "ok": ok,
            "sources": [_published(one) for one in reports],
            "models": [one.to_dict() for one in models],
            "notes": notes,
            "scope": {name: one._asdict() for name, one in scope.items()},
            "adapters": [one._asdict() for one in adapters],
            "access": [{"code": one.code, "subject": one.subject, "message": one.message} for one in access],
            "privacy": privacy.to_dict(),
            "audit": audit.to_dict(),
            "service": service.to_dict(),
        }
        print_json(published)
    else:
        _show(reports, notes)
        _show_models(models)
        _show_scope(scope)
        for one in access:
            show(out(), Text(f"! {clean(one.message)}", "yellow"))
        for line in (
            *adapter_text(context, adapters),
            *privacy_lines(privacy),
            *audit_lines(audit),
            *service_lines(service),
        ):
            show(out(), line)
    click.get_current_context().exit(0 if ok else FAILURE)


def _notes(reports: list[ExaminedSource]) -> list[str]:
    from context_engine.wiring.examine import adapter_advice

    return list(adapter_advice(reports))


def _access(context: CliContext) -> tuple[Notice, ...]:
    from context_engine.wiring.access_advice import access_notices

    return access_notices(context.setup)


def _reports(context: CliContext, only: str | None, sample: str | None) -> Iterator[ExaminedSource]:
    from context_engine.wiring.build import source_opener
    from context_engine.wiring.examine import ExaminedSource, examine_source

    registry = context.setup.registry
    for problem in registry.unread if only is None else ():
        yield ExaminedSource(domain="", source_id="", adapter="", problem=str(problem))
    opener = source_opener(context.setup, data_dir=context.data_dir)
    for name in [only] if only is not None else registry.names:
        if only is None and name in registry.broken:
            for problem in registry.broken[name].each:
                yield ExaminedSource(domain=name, source_id="", adapter="", problem=str(problem))
            continue
        domain = registry.domain(name)
        for spec in domain.sources:
            yield examine_source(opener, domain, spec, query=sample, timeout_s=EXAMINE_S)


def _published(report: ExaminedSource) -> dict[str, Any]:
    """Return the JSON form of a report; what a source says of itself as a whole stands in it where it says any."""
    examination = report.examination or Examination()
    summary = {
        "kind": examination.kind,
        "documents": examination.documents,
        "warnings": [warning.message for warning in examination.warnings],
        "details": dict(examination.details),
    }
    return {
        "domain": report.domain,
        "source": report.source_id,
        "adapter": report.adapter,
        "problem": report.problem,
        "records": examination.records,
        "datasets": [_published_part(part) for part in examination.parts],
        "ok": report.ok,
        "version": examination.version,
        **{key: value for key, value in summary.items() if value not in ("", None, [], {})},
    }


def _published_part(part: Examination) -> dict[str, Any]:
    return {
        "dataset_id": part.id,
        "name": part.name or None,
        "indexing_technique": part.kind or None,
        "documents": part.documents,
        "search_method": part.search_method,
        "records": part.records,
        "problem": part.problem,
        "warnings": [warning.message for warning in part.warnings],
        **part.details,
        "ok": part.ok,
    }


def _show(reports: list[ExaminedSource], notes: list[str]) -> None:
    console = out()
    if not reports:
        show(console, Text("No domain is registered. Write one with 'context-engine init DIR'."))
        return
    columns = ("", "domain", "source", "dataset", "index", ">documents", ">sample", "search")
    show(console, table(columns, (cells for report in reports for cells in _rows(report))))
    console.print()
    problems = (line for one in reports for line in _problems(one))
    remarks = (*_search_only(reports), *(Text(clean(note), "dim") for note in notes))
    for line in (*problems, *_warnings(reports), *remarks):
        show(console, line)
    bad = sum(not one.ok for one in reports)
    total = f"{len(reports)} source{'s' * (len(reports) != 1)}"
    show(console, Text(f"{bad} of {total} cannot be searched", "bold red") if bad else Text(f"{total} good", "green"))


def _show_models(models: list[ModelReport]) -> None:
    for one in models:
        about = f"{one.kind} {clean(one.name)}"
        good = Text(f"{about} good", "green")
        show(out(), good if one.problem is None else Text(f"✗ {about}: {clean(one.problem)}", "red"))


def _scope(context: CliContext, only: str | None) -> dict[str, ScopeThreshold]:
    """Return the scope threshold of each domain in force."""
    from context_engine.wiring.scope import scope_in_force

    domains = context.setup.registry.domains
    return {
        name: scope_in_force(context.setup, domains[name], context.data_dir)
        for name in sorted(domains)
        if only in (None, name)
    }


def _show_scope(scope: dict[str, ScopeThreshold]) -> None:
    for name, threshold in scope.items():
        text = f"scope threshold of {clean(name)}: {threshold.value:.2f}"
        show(out(), Text(f"{text}, {threshold.origin}" if threshold.origin else f"{text}, as set", "dim"))


def _rows(report: ExaminedSource) -> Iterator[list[Text]]:
    head = [_cell(report.domain), _cell(report.source_id)]
    examination = report.examination or Examination()
    if not examination.parts:
        numbers = (examination.documents, examination.records, examination.search_method)
        yield [_sign(report.ok), *head, _cell(None), _cell(examination.kind or report.adapter), *map(_cell, numbers)]
    for number, part in enumerate(examination.parts):
        first = head if number == 0 else [Text(""), Text("")]
        rest = (part.documents, part.records, part.search_method)
        yield [_sign(part.ok), *first, _cell(part.name or part.id), _cell(part.kind), *map(_cell, rest)]


def _sign(ok: bool) -> Text:
    return Text("✓", "green") if ok else Text("✗", "bold red")


def _cell(value: object) -> Text:
    return Text("–", "dim") if value is None or value == "" else Text(clean(str(value)))


def _problems(report: ExaminedSource) -> Iterator[Text]:
    if report.problem is not None:
        place = report.source_id or report.domain
        yield Text(f"✗ {place}: {clean(report.problem)}" if place else f"✗ {clean(report.problem)}", "red")
    for part in report.examination.parts if report.examination else ():
        if part.problem is not None:
            yield Text(f"✗ {clean(_part_name(report, part))}: {clean(part.problem)}", "red")


def _warnings(reports: list[ExaminedSource]) -> Iterator[Text]:
    """Yield each warning once, with the sources and datasets that it is given for."""
    places: dict[tuple[str, str, str], list[str]] = {}
    for one in reports:
        examination = one.examination or Examination()
        for warning in examination.warnings:
            places.setdefault(_without_subject(warning), []).append(one.source_id)
        for part in examination.parts:
            for warning in part.warnings:
                places.setdefault(_without_subject(warning), []).append(_part_name(one, part))
    for (_, _, message), where in places.items():
        first = where[0] if len(where) == 1 else f"{len(where)} datasets, such as {where[0]}"
        yield Text(f"! {clean(first)}: {clean(message)}", "yellow")


def _without_subject(notice: Notice) -> tuple[str, str, str]:
    return notice.code, str(notice.detail), notice.message


def _search_only(reports: list[ExaminedSource]) -> Iterator[Text]:
    """Yield which sources were tried with a search alone, because their adapters cannot examine them."""
    for one in reports:
        if one.examinable is False:
            yield Text(f"{clean(one.source_id)}: searches only; cannot be examined", "dim")


def _part_name(report: ExaminedSource, part: Examination) -> str:
    return f"{report.source_id}, {part.name or 'dataset'} ({part.id})"
