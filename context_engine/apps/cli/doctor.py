"""`context-engine doctor`: can every source be searched, and as its manifest says?"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import click
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import clean, out, print_json_line, show
from context_engine.apps.cli.doctor_dify import DifyServer, server_notes, server_of
from context_engine.apps.cli.doctor_external import external_is_good
from context_engine.apps.cli.doctor_models import ModelReport, model_reports
from context_engine.apps.cli.workspace import Place, Workspace, open_workspace, placed
from context_engine.core.concurrency.deadline import DeadlineExceeded, call_within
from context_engine.core.concurrency.executor import Busy
from context_engine.core.models import DomainSpec, SourceQuery, SourceSpec
from context_engine.core.protocols import Source
from context_engine.errors import ContextEngineError, InvalidRequest, source_error_from

if TYPE_CHECKING:
    from context_engine.adapters.sources.dify.examine import DatasetReport
    from context_engine.wiring import Setup

__all__ = ["doctor"]

SAMPLE: Final = "approval limit policy"
EXAMINE_S: Final = 20.0
"""A Dify source is asked several things for each dataset, in a time bounded by its own examination."""

EPILOG: Final = """\b
Examples:
  context-engine doctor
  context-engine doctor --domain NPA --no-query --json
  context-engine doctor --external https://dify.example.com/e/abc --domain NPA --token-file token.txt

\b
Exit code: 0 every source can be searched and every model used, 1 one cannot, 2 usage or configuration.
With --external: 0 Dify would register it and find something to show, 1 it would not.
"""


class SourceReport(NamedTuple):
    """What was found out about one source; `datasets` and `server` of Dify sources only."""

    domain: str
    source: str
    adapter: str
    problem: str | None = None
    records: int | None = None
    datasets: tuple[DatasetReport, ...] = ()
    server: DifyServer | None = None

    @property
    def ok(self) -> bool:
        """Whether it can be searched, and all of it."""
        return self.problem is None and all(one.ok for one in self.datasets)

    def to_dict(self) -> dict[str, Any]:
        """Return the published form."""
        datasets = [{**one._asdict(), "ok": one.ok} for one in self.datasets]
        own = {name: value for name, value in self._asdict().items() if name != "server"}
        return {**own, "ok": self.ok, "datasets": datasets, "version": self.server.version if self.server else None}


@click.command(epilog=EPILOG)
@click.option("--domain", "-d", metavar="NAME", help="This domain alone.")
@click.option("--no-query", is_flag=True, help="Ask no sample query and try no model.")
@click.option("--query", metavar="TEXT", default=SAMPLE, show_default=True, help="The sample query.")
@click.option("--external", metavar="URL", help="Play Dify's questions to an External Knowledge API instead.")
@click.option("--token-env", metavar="NAME", help="The variable that holds its access token.")
@click.option("--token-file", metavar="FILE", help="The file that holds its access token.")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@placed
def doctor(
    place: Place,
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
    workspace = open_workspace(place)
    reports = list(_reports(workspace, domain, None if no_query else query))
    setup = workspace.setup
    models = [] if no_query else list(model_reports(setup, setup.models(workspace.data_dir)))
    notes, ok = _notes(reports), all(one.ok for one in reports) and all(one.ok for one in models)
    if as_json:
        found = {
            "ok": ok,
            "sources": [one.to_dict() for one in reports],
            "models": [one.to_dict() for one in models],
            "notes": notes,
        }
        print_json_line(json.dumps(found, ensure_ascii=False))
    else:
        _show(reports, notes)
        _show_models(models)
    click.get_current_context().exit(0 if ok else FAILURE)


def _reports(workspace: Workspace, only: str | None, sample: str | None) -> Iterator[SourceReport]:
    from context_engine.wiring import source_opener

    registry = workspace.setup.registry
    open_source = source_opener(workspace.setup, data_dir=workspace.data_dir)
    for name in [only] if only is not None else registry.names:
        if only is None and name in registry.broken:
            yield SourceReport(name, "", "", str(registry.broken[name]))
            continue
        domain = registry.domain(name)
        for spec in domain.sources:
            yield _bounded(_Look(workspace.setup, open_source, domain, spec, sample))


class _Look(NamedTuple):
    """One source to look at."""

    setup: Setup
    open_source: Callable[[DomainSpec, SourceSpec], Source]
    domain: DomainSpec
    spec: SourceSpec
    sample: str | None

    def report(self, problem: str | None = None) -> SourceReport:
        return SourceReport(self.domain.domain, self.spec.id, self.spec.adapter, problem)

    def failed(self, error: BaseException) -> SourceReport:
        """Return the report of a source that raised; of a stranger's exception the type alone, as in a search."""
        known = isinstance(error, ContextEngineError)
        return self.report(str(error if known else source_error_from(error, self.spec.id)))


def _bounded(look: _Look) -> SourceReport:
    """Look at a source in a daemon thread: one that hangs holds up neither the next ones nor the end of the process."""
    try:
        values = look.setup.resolver.base(look.domain).values
    except ContextEngineError as error:
        return look.failed(error)
    asked_s = min(look.spec.timeout_s or values.source_timeout_s, values.deadline_s)
    limit = asked_s + (EXAMINE_S if look.spec.adapter == "dify" else 0.0)
    try:
        return call_within(limit, lambda: _report(look, asked_s), name=f"doctor-{look.spec.id}")
    except DeadlineExceeded:
        return look.report(f"no answer within {limit:g} s")
    except Busy as busy:
        return look.report(str(busy))


def _report(look: _Look, timeout_s: float) -> SourceReport:
    try:
        source = look.open_source(look.domain, look.spec)
    except BaseException as error:  # noqa: BLE001  whatever an adapter raises is its own bad row
        return look.failed(error)
    try:
        report = _asked(look, source, timeout_s)
    except BaseException as error:  # noqa: BLE001  it is to be closed all the same
        report = look.failed(error)
    try:
        source.close()
    except BaseException as error:  # noqa: BLE001  what was found out before is kept
        problem = f"it could not be closed: {look.failed(error).problem}"
        report = report._replace(problem="; ".join(filter(None, [report.problem, problem])))
    return report


def _asked(look: _Look, source: Source, timeout_s: float) -> SourceReport:
    domain, sample = look.domain.domain, look.sample
    if look.spec.adapter == "dify":
        return _examined(look, source, timeout_s)
    if sample is None:
        return look.report()
    answer = source.search(SourceQuery(text=sample, domain=domain, top_k=5, timeout_s=timeout_s))
    problem = "; ".join(map(str, answer.failures)) or None
    return look.report(problem)._replace(records=len(answer.chunks))


def _examined(look: _Look, source: Source, timeout_s: float) -> SourceReport:
    from context_engine.adapters.sources.dify.examine import examine
    from context_engine.adapters.sources.dify.source import DifySource

    assert isinstance(source, DifySource)
    datasets = tuple(examine(source, look.domain.domain, look.sample))
    reached = any(one.reachable for one in datasets)
    return look.report()._replace(datasets=datasets, server=server_of(source, timeout_s, reached=reached))


def _notes(reports: list[SourceReport]) -> list[str]:
    if not any(one.adapter == "dify" for one in reports):
        return []
    from context_engine.adapters.sources.dify.examine import STORES_QUERIES

    return [STORES_QUERIES, *server_notes((one.domain, one.server) for one in reports if one.server)]


def _show(reports: list[SourceReport], notes: list[str]) -> None:
    console = out()
    if not reports:
        show(console, Text("No domain is registered. Write one with 'context-engine init DIR'."))
        return
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    for header in ("", "domain", "source", "dataset", "index"):
        table.add_column(header, overflow="fold")
    for header in ("documents", "sample"):
        table.add_column(header, justify="right")
    table.add_column("search", overflow="fold")
    for one in reports:
        for cells in _rows(one):
            table.add_row(*cells)
    show(console, table)
    console.print()
    problems = (line for one in reports for line in _problems(one))
    for line in (*problems, *_warnings(reports), *(Text(clean(note), "dim") for note in notes)):
        show(console, line)
    bad = sum(not one.ok for one in reports)
    total = f"{len(reports)} source{'s' * (len(reports) != 1)}"
    show(console, Text(f"{bad} of {total} cannot be searched", "bold red") if bad else Text(f"{total} good", "green"))


def _show_models(models: list[ModelReport]) -> None:
    for one in models:
        about = f"{one.kind} {clean(one.name)}"
        good = Text(f"{about} good", "green")
        show(out(), good if one.problem is None else Text(f"✗ {about}: {clean(one.problem)}", "red"))


def _rows(one: SourceReport) -> Iterator[list[Text]]:
    head = [_cell(one.domain), _cell(one.source)]
    if not one.datasets:
        yield [_sign(one.ok), *head, _cell(None), _cell(one.adapter), _cell(None), _cell(one.records), _cell(None)]
    for number, dataset in enumerate(one.datasets):
        name = _cell(dataset.name or dataset.dataset_id)
        first = head if number == 0 else [Text(""), Text("")]
        rest = (dataset.documents, dataset.records, dataset.search_method)
        yield [_sign(dataset.ok), *first, name, _cell(dataset.indexing_technique), *map(_cell, rest)]


def _sign(ok: bool) -> Text:
    return Text("✓", "green") if ok else Text("✗", "bold red")


def _cell(value: object) -> Text:
    return Text("–", "dim") if value is None or value == "" else Text(clean(str(value)))


def _problems(one: SourceReport) -> Iterator[Text]:
    if one.problem is not None:
        yield Text(f"✗ {one.source or one.domain}: {clean(one.problem)}", "red")
    for dataset in one.datasets:
        if dataset.problem is not None:
            yield Text(f"✗ {clean(_about(one, dataset))}: {clean(dataset.problem)}", "red")


def _warnings(reports: list[SourceReport]) -> Iterator[Text]:
    """Yield each warning once, with the datasets that it is said of."""
    said: dict[str, list[str]] = {}
    for one in reports:
        for dataset in one.datasets:
            for warning in dataset.warnings:
                said.setdefault(warning, []).append(_about(one, dataset))
    for warning, about in said.items():
        first = about[0] if len(about) == 1 else f"{len(about)} datasets, such as {about[0]}"
        yield Text(f"! {clean(first)}: {clean(warning)}", "yellow")


def _about(one: SourceReport, dataset: DatasetReport) -> str:
    return f"{one.source}, {dataset.name or 'dataset'} ({dataset.dataset_id})"
