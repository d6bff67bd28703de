"""`context-engine ingest`: write documents to the embedded base or to Dify."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.console import error_line, note, out, print_json
from context_engine.apps.cli.context import (
    CliContext,
    ConfigLocation,
    only_domain,
    open_context,
    with_domain,
    with_location,
)
from context_engine.apps.cli.ingest_report import next_commands, print_report
from context_engine.apps.cli.kb.base import judged_questions, print_calibrations
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.models import SourceSpec
from context_engine.errors import ConfigError, ContextEngineError, InvalidRequest, SourceError, nearest

if TYPE_CHECKING:
    from context_engine.core.protocols import Sink
    from context_engine.ingest import IngestReport
    from context_engine.wiring import DomainCalibration
    from context_engine.wiring.models import Models


_FIRST_NOTE_S: Final = 10.0


def target_sources(
    domain: str, sources: Sequence[SourceSpec], to: str, source_id: str | None, sinks: Callable[[list[str]], list[str]]
) -> Sequence[SourceSpec]:
    """Return the sources of a domain that documents are written to.

    Args:
        sources: all of the domain.
        to: the name of an adapter.
        source_id: this one alone; None: all of the adapter.
        sinks: returns which of some adapters can be written to.

    Raises:
        InvalidRequest: the domain has none of that adapter, or not the one that is named.
    """
    fitting = [source for source in sources if source.adapter == to]
    if not fitting:
        others = sinks(sorted({source.adapter for source in sources}))
        hint = f"; --to {others[0]} writes to those it has" if others else ""
        raise InvalidRequest(f"domain {domain!r} has no source with 'adapter: {to}' in its manifest{hint}")
    if source_id is None:
        return fitting
    named = [source for source in fitting if source.id == source_id]
    if not named:
        ids = [source.id for source in fitting]
        raise InvalidRequest(f"source {source_id!r} is not one that --to {to} writes to.{nearest(source_id, ids)}")
    return named


def noting_once() -> Callable[[str], None]:
    """Return a function that says of a problem, once, that what failed is tried again."""
    said = set[str]()

    def tell(problem: str) -> None:
        if problem not in said:
            said.add(problem)
            note(f"{problem}; trying again …")

    return tell


def noting_sleep(what: str) -> Callable[[float], None]:
    """Return a sleep that says so when the waiting adds up.

    Args:
        what: what is waited for, and why.
    """
    waited, due = 0.0, _FIRST_NOTE_S

    def wait(seconds: float) -> None:
        nonlocal waited, due
        waited += seconds
        if waited >= due:
            note(f"Waiting for {what}: {waited:.0f} s so far.")
            due = waited * 3
        time.sleep(seconds)

    return wait


INTERVAL_S: Final = 2.0

DEFAULT_TARGET: Final = "local"

EPILOG: Final = """\b
Examples:
  context-engine ingest documents --domain HANDBOOK --dry-run
  context-engine ingest documents --domain HANDBOOK --prune
  context-engine ingest documents --domain HANDBOOK --to dify --watch
  context-engine ingest notice.md --domain NPA --source npa_external_official
"""


@dataclass(frozen=True, slots=True)
class _Order:
    """What is asked for."""

    path: Path
    domain: str
    to: str
    source_id: str | None
    prune: bool
    allow_empty: bool
    dry_run: bool
    force: bool
    repair: bool
    jobs: int
    location: ConfigLocation

    def arguments(self) -> list[str]:
        """Return what was given to the command, but for how it prunes and reports."""
        at = self.location
        named = (
            ("--domain", self.domain),
            ("--to", self.to if self.to != DEFAULT_TARGET else None),
            ("--source", self.source_id),
            ("--config-dir", at.config_dir),
            ("--data-dir", at.data_dir),
            ("--stage", at.stage),
        )
        return [str(self.path), *(part for name, value in named if value is not None for part in (name, value))]


@click.command(epilog=EPILOG)
@click.argument("path")
@with_domain("The domain whose sources take the documents")
@click.option(
    "--to",
    metavar="ADAPTER",
    default=DEFAULT_TARGET,
    show_default=True,
    help="Write to the sources of this adapter: local, dify (where each record of a table is a document of its own), "
    "or another that is installed and can be written to.",
)
@click.option("--source", "source_id", metavar="ID", help="Put every file into this source, whatever the rules say.")
@click.option("--prune", is_flag=True, help="Remove documents that the folder no longer holds.")
@click.option(
    "--allow-empty",
    is_flag=True,
    help="With --prune: a source of which the folder holds nothing any more may lose all of its documents.",
)
@click.option("--dry-run", is_flag=True, help="Say what would be done and show some chunks; write nothing.")
@click.option("--force", is_flag=True, help="Read every file, also those whose size and time did not change.")
@click.option(
    "--repair",
    is_flag=True,
    help="With --to dify: read the chunks of every document back from Dify and repair what differs.",
)
@click.option("--watch", is_flag=True, help="Go on until Ctrl-C: run again whenever a file has changed.")
@click.option(
    "--jobs",
    type=click.IntRange(0, 64),
    default=0,
    metavar="N",
    help="Processes that read and cut; 0 (the default) takes as many as pay.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the report as one JSON object.")
@with_location
def ingest(
    path: str,
    location: ConfigLocation,
    domain: str | None,
    to: str,
    source_id: str | None,
    prune: bool,
    allow_empty: bool,
    dry_run: bool,
    force: bool,
    repair: bool,
    watch: bool,
    jobs: int,
    as_json: bool,
) -> None:
    """Cut the documents of PATH into chunks and write them to the embedded knowledge base, or to Dify.

    Read are Markdown, plain text, templates of both (ERB, TMPL), RTF, messages (EML), JSON, JSONL and CSV, and with
    the extra 'documents' DOCX, PPTX, ODT, XLSX, PDF and HTML. Old DOC, XLS and PPT files are read where LibreOffice is
    installed. Each is cut along its structure, unless a type is declared; 'context-engine chunk FILE' shows how.

    What did not change is left alone, so a run that was broken off is run again. A file whose size and time of change
    are those of the last run is not even read; --force reads it. Exit code 3: some files or folders could not be read,
    no file gave a document, a source was not pruned because the folder holds nothing of it any more, or some documents
    do not stand in Dify as they should; the next run goes on with them.
    """
    context = open_context(location, build_demo=False, operator=True)
    if context.demo:
        raise ConfigError("there is no domain of your own to ingest for. Write one with 'context-engine init DIR'.")
    domain = only_domain(context.setup.registry, domain)
    order = _Order(Path(path), domain, to, source_id, prune, allow_empty, dry_run, force, repair, jobs, location)
    if watch:
        _watch(context, order, as_json=as_json)
        return
    good = _once(context, order, as_json=as_json)
    click.get_current_context().exit(0 if good else DEGRADED)


def _once(context: CliContext, order: _Order, *, as_json: bool) -> bool:
    """Run once and show what came of it; return whether all of it is where it should be."""
    from context_engine.adapters.sources.adapter import SinkOptions
    from context_engine.core.protocols import ReportingSink, SinkReport
    from context_engine.wiring import load_source_adapter, open_sink, sink_names
    from context_engine.wiring.embedded_base import in_embedded_base

    domain = context.setup.registry.domain(order.domain)
    load_source_adapter(order.to)  # a name that is not installed is said before a domain that has no such source
    specs = target_sources(order.domain, domain.sources, order.to, order.source_id, sink_names)
    models = context.setup.models(context.data_dir)
    sleep = noting_sleep(f"{order.to} (its rate limit, its indexing or an outage)")
    options = SinkOptions(dry_run=order.dry_run, repair=order.repair, sleep=sleep, tell=noting_once())
    with open_sink(
        context.setup, domain, specs, order.to, options, data_dir=context.data_dir, embedder=models.embedder
    ) as sink:
        report = _run(context, order, specs, sink)
    calibrated: list[DomainCalibration] = []
    if all(map(in_embedded_base, specs)) and not order.dry_run:
        _remember(context.base, order, specs)
        calibrated = _calibrated(context, models, order.domain)
    written = report.added + report.replaced
    wrote = sink.report(written) if isinstance(sink, ReportingSink) else SinkReport(order.to)
    use = models.embedder_use()
    commands = next_commands(report, order.arguments())
    if as_json:
        shown = {**report.to_dict(), "to": order.to, "commands": commands}
        shown |= {order.to: wrote.published} if wrote.published is not None else {}
        shown |= {"embedder": use.to_dict()} if use is not None else {}
        shown |= {"calibrations": [calibration.to_dict() for calibration in calibrated]} if calibrated else {}
        print_json(shown)
    else:
        print_report(out(), report, wrote, commands)
        if use is not None:
            note(str(use))
        print_calibrations(calibrated)
    complete = not report.errors and not report.refused and not wrote.problems and not report.emptied
    return complete and (report.documents > 0 or not report.files)


def _calibrated(context: CliContext, models: Models, domain: str) -> list[DomainCalibration]:
    """Calibrate every domain that has changed enough; return what came of this one, and what failed: the documents are
    where they should be all the same."""
    from context_engine.wiring import DomainCalibration, calibrate_domains

    try:
        with context.open_base(models) as base:
            judged = judged_questions(context.setup)
            calibrations = list(calibrate_domains(context.setup, base, judged=judged)) if base.exists() else []
    except ContextEngineError as error:
        return [DomainCalibration(domain, (), str(error))]
    return [
        calibration for calibration in calibrations if calibration.domain == domain or calibration.problem is not None
    ]


def _remember(base: Path, order: _Order, specs: Sequence[SourceSpec]) -> None:
    """Keep where the files are, for `search --open`; without it they are as well found."""
    from context_engine.ingest.folders import IngestedFolders

    taken = [spec.id for spec in specs if order.source_id in (None, spec.id)]
    try:
        IngestedFolders(base).add(taken, order.path)
    except OSError as error:
        note(f"'search --open' will not find these files: {error.strerror or error}", style="yellow")


def _run(context: CliContext, order: _Order, specs: Sequence[SourceSpec], sink: Sink) -> IngestReport:
    from context_engine.adapters.token_counters import open_counter
    from context_engine.ingest import IngestOptions, ScanCache
    from context_engine.ingest import ingest as run

    effective = context.setup.resolver.base(context.setup.registry.domain(order.domain))
    settings = effective.values
    options = IngestOptions(
        strategies=context.setup.config.chunking,
        max_chunk_tokens=effective.chunk_limit,
        counter=open_counter(settings.token_counter, env=context.setup.env),
        jobs=order.jobs,
        settings=context.setup.config.ingest,
    )
    try:
        with progress_bar("Ingesting …") as progress:
            return run(
                order.path, specs, sink,
                source_id=order.source_id, options=options, dry_run=order.dry_run, progress=progress,
                prune=order.prune, allow_empty=order.allow_empty,
                memory=ScanCache(context.data_dir / f"files-{order.to}.json", force=order.force),
            )  # fmt: skip
    except SourceError:
        note("What was written stays: run the command again to go on.")
        raise


def _watch(context: CliContext, order: _Order, *, as_json: bool) -> None:
    """Run whenever the files differ from those of the last run; an outage is tried again, Ctrl-C is the end."""
    if not order.path.exists():
        raise InvalidRequest(f"{order.path} does not exist: give a folder or a file to ingest")
    seen: frozenset[tuple[str, int, int]] | None = None
    try:
        while True:
            now = _state(order.path)
            if now != seen:
                try:
                    _once(context, order, as_json=as_json)
                    sys.stdout.flush()  # who reads a pipe is told now, not when there is a block to send
                    seen = now
                except SourceError as error:
                    error_line(str(error))
                note(f"Watching {order.path}; Ctrl-C ends it.")
            time.sleep(INTERVAL_S)
    except KeyboardInterrupt:
        note("Stopped.")


def _state(path: Path) -> frozenset[tuple[str, int, int]]:
    """Return name, size and time of change of every file."""
    files = [path] if not path.is_dir() else [Path(at, name) for at, _, names in os.walk(path) for name in names]
    states = set()
    for file in files:
        try:
            known = file.stat()
        except OSError:
            continue
        states.add((str(file), known.st_size, known.st_mtime_ns))
    return frozenset(states)
