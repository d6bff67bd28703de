"""`context-engine doctor`: check that every source can be searched."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.text import Text

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import print_json, print_line, print_table
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context, with_location
from context_engine.apps.cli.doctor.checks import (
    CacheReport,
    JobsReport,
    ServiceReport,
    adapter_text,
    audit_lines,
    cache_lines,
    cache_report,
    jobs_lines,
    jobs_report,
    privacy_lines,
    service_lines,
    service_report,
)
from context_engine.apps.cli.doctor.external import external_is_good
from context_engine.apps.cli.options import with_json
from context_engine.apps.cli.progress import busy
from context_engine.apps.cli.words import sign
from context_engine.apps.web.inert import clean
from context_engine.core.models import Examination, Notice
from context_engine.core.text import counted
from context_engine.errors import InvalidRequest

if TYPE_CHECKING:
    from context_engine.core.models import ScopeThreshold, StoredAdapter
    from context_engine.wiring.audit_report import AuditReport
    from context_engine.wiring.examine import ExaminedSource
    from context_engine.wiring.model_report import ModelReport
    from context_engine.wiring.privacy import PrivacyReport

SAMPLE: Final = "approval limit policy"
EXAMINE_S: Final = 20.0  # longer than a search: an examination may send several requests per dataset
EPILOG: Final = """\b
Examples:
  context-engine doctor
  context-engine doctor --domain NPA --no-query --json
  context-engine doctor --external https://dify.example.com/e/abc --domain NPA --token-file token.txt

\b
Exit codes: 0 all checks passed; 2 usage or configuration; 1 a source cannot be searched, a model does not work,
masking, the audit ledger, the database of jobs or the shared cache is set up but does not work, or a token keeps the
service from starting.
With --external: 0 if Dify would accept the endpoint and find chunks, else 1.
"""


@click.command(epilog=EPILOG)
@click.option("--domain", "-d", metavar="NAME", help="Check this domain only.")
@click.option("--no-query", is_flag=True, help="Skip the sample query and the test of the models.")
@click.option("--query", metavar="TEXT", default=SAMPLE, show_default=True, help="Send this sample query.")
@click.option("--external", metavar="URL", help="Check an External Knowledge API instead: send what Dify would send.")
@click.option("--token-env", metavar="NAME", help="Read its access token from this environment variable.")
@click.option("--token-file", metavar="FILE", help="Read its access token from this file.")
@with_json
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
) -> int:
    """Check that every source can be searched and matches its manifest.

    Also tests the embedder, the rerankers, the chat model, the database of jobs and the shared cache once, and reports
    masking, the audit ledger, and which tokens the HTTP service accepts. The keys of an identity provider are fetched.

    With --external: send an External Knowledge API, such as the plugin's endpoint, the requests that Dify sends on
    registration and on a search, and report what Dify would make of the answers. The URL is the one registered in
    Dify, without /retrieval.
    """
    if not query.strip():
        raise InvalidRequest("--query is empty: give some words, or --no-query")
    if external is not None:
        sample = None if no_query else query
        good = external_is_good(
            external, token_env=token_env, token_file=token_file, domain=domain, query=sample, as_json=as_json
        )
        return 0 if good else FAILURE
    if token_env is not None or token_file is not None:
        raise InvalidRequest("--token-env and --token-file belong to --external")
    context = open_context(location, operator=True)
    diagnosis = _diagnosed(context, domain, None if no_query else query)
    if as_json:
        print_json(diagnosis.to_dict())
    else:
        _show(diagnosis.sources, diagnosis.notes)
        for line in diagnosis.lines(context):
            print_line(line)
    return 0 if diagnosis.ok else FAILURE


class Diagnosis(NamedTuple):
    """All that `doctor` found.

    Attributes:
        notes: advice on the sources.
        scope: the scope threshold in force, by domain.
    """

    sources: list[ExaminedSource]
    models: list[ModelReport]
    notes: list[str]
    scope: Mapping[str, ScopeThreshold]
    adapters: list[StoredAdapter]
    access: Sequence[Notice]
    privacy: PrivacyReport
    audit: AuditReport
    service: ServiceReport
    jobs: JobsReport
    cache: CacheReport

    @property
    def ok(self) -> bool:
        """Whether every check passed."""
        parts = (self.privacy, self.audit, self.service, self.jobs, self.cache)
        works = all(source.ok for source in self.sources) and all(model.ok for model in self.models)
        return works and all(part.problem is None for part in parts)

    def to_dict(self) -> dict[str, Any]:
        """Return everything, ready for JSON."""
        return {
            "ok": self.ok,
            "sources": [_published(source) for source in self.sources],
            "models": [model.to_dict() for model in self.models],
            "notes": self.notes,
            "scope": {name: threshold._asdict() for name, threshold in self.scope.items()},
            "adapters": [adapter._asdict() for adapter in self.adapters],
            "access": [
                {"code": notice.code, "subject": notice.subject, "message": notice.message} for notice in self.access
            ],
            "privacy": self.privacy.to_dict(),
            "audit": self.audit.to_dict(),
            "service": self.service.to_dict(),
            "jobs": self.jobs._asdict(),
            "cache": self.cache._asdict(),
        }

    def lines(self, context: CliContext) -> Iterator[Text]:
        """Yield the lines below the table of sources."""
        yield from map(_model_line, self.models)
        yield from _scope_lines(self.scope)
        yield from (Text(f"! {clean(notice.message)}", "yellow") for notice in self.access)
        yield from adapter_text(context, self.adapters)
        yield from privacy_lines(self.privacy)
        yield from audit_lines(self.audit)
        yield from jobs_lines(self.jobs)
        yield from cache_lines(self.cache)
        yield from service_lines(self.service)


def _diagnosed(context: CliContext, domain: str | None, sample: str | None) -> Diagnosis:
    """Try everything.

    Args:
        sample: the sample query; None: send none, and try no model.
    """
    from context_engine.wiring.access_advice import access_notices
    from context_engine.wiring.audit_report import audit_report
    from context_engine.wiring.examine import adapter_advice
    from context_engine.wiring.model_report import blend_notes, model_reports, stored_adapters
    from context_engine.wiring.privacy import privacy_report
    from context_engine.wiring.scope import scopes_in_force

    setup = context.setup
    with busy("Trying the sources …", quiet=True):
        sources = list(_reports(context, domain, sample))
    with busy("Trying the models …", quiet=True):
        models = [] if sample is None else list(model_reports(setup, setup.models(context.data_dir)))
    adapters, stored_models = stored_adapters(setup, context.data_dir, domain)
    return Diagnosis(
        sources=sources,
        models=models,
        notes=[*adapter_advice(sources), *blend_notes(setup, adapters, stored_models, domain)],
        scope=scopes_in_force(setup, context.data_dir, domain),
        adapters=adapters,
        access=access_notices(setup),
        privacy=privacy_report(setup.masking(), setup.mask),
        audit=audit_report(setup, context.data_dir),
        service=service_report(context, sample),
        jobs=jobs_report(context),
        cache=cache_report(context),
    )


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
    """Return the JSON form of a report; empty facts about the whole source are left out."""
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
    if not reports:
        print_line("No domain is registered. Write one with 'context-engine init DIR'.")
        return
    columns = ("", "domain", "source", "dataset", "index", ">documents", ">sample", "search")
    print_table(columns, (cells for report in reports for cells in _rows(report)))
    print_line()
    problems = (line for report in reports for line in _problems(report))
    searched_only = (
        Text(f"{clean(report.source_id)}: searches only; cannot be examined", "dim")
        for report in reports
        if report.examinable is False
    )
    for line in (*problems, *_warnings(reports), *searched_only, *(Text(clean(note), "dim") for note in notes)):
        print_line(line)
    bad = sum(not report.ok for report in reports)
    total = counted(len(reports), "source")
    print_line(Text(f"{bad} of {total} cannot be searched", "bold red") if bad else Text(f"{total} good", "green"))


def _model_line(model: ModelReport) -> Text:
    name = f"{model.kind} {clean(model.name)}"
    return Text(f"{name} good", "green") if model.problem is None else Text(f"✗ {name}: {clean(model.problem)}", "red")


def _scope_lines(scope: Mapping[str, ScopeThreshold]) -> Iterator[Text]:
    for name, threshold in scope.items():
        text = f"scope threshold of {clean(name)}: {threshold.value:.2f}, {threshold.origin or 'from the settings'}"
        yield Text(text, "dim")


def _rows(report: ExaminedSource) -> Iterator[list[Text]]:
    head = [_cell(report.domain), _cell(report.source_id)]
    examination = report.examination or Examination()
    if not examination.parts:
        numbers = (examination.documents, examination.records, examination.search_method)
        yield [sign(report.ok), *head, _cell(None), _cell(examination.kind or report.adapter), *map(_cell, numbers)]
    for number, part in enumerate(examination.parts):
        first = head if number == 0 else [Text(""), Text("")]
        rest = (part.documents, part.records, part.search_method)
        yield [sign(part.ok), *first, _cell(part.name or part.id), _cell(part.kind), *map(_cell, rest)]


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
    """Yield each warning once, with the sources and datasets that it concerns."""
    places: dict[tuple[str, str, str], list[str]] = {}

    def add(warnings: tuple[Notice, ...], place: str) -> None:
        for warning in warnings:
            places.setdefault((warning.code, str(warning.detail), warning.message), []).append(place)

    for report in reports:
        examination = report.examination or Examination()
        add(examination.warnings, report.source_id)
        for part in examination.parts:
            add(part.warnings, _part_name(report, part))
    for (_, _, message), where in places.items():
        first = where[0] if len(where) == 1 else f"{len(where)} sources or datasets, such as {where[0]}"
        yield Text(f"! {clean(first)}: {clean(message)}", "yellow")


def _part_name(report: ExaminedSource, part: Examination) -> str:
    return f"{report.source_id}, {part.name or 'dataset'} ({part.id})"
