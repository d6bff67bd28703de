"""`context-engine ingest`: write documents to the embedded base or to Dify."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from context_engine.apps.cli.app import DEGRADED
from context_engine.apps.cli.audit.subscriptions import look_after_writing, print_changes
from context_engine.apps.cli.console import error_line, note, out, print_json
from context_engine.apps.cli.context import (
    CliContext,
    ConfigLocation,
    only_domain,
    open_context,
    with_domain,
    with_location,
)
from context_engine.apps.cli.ingest_report import keep_report, next_commands, print_report, remember_folder
from context_engine.apps.cli.kb.base import print_calibrations
from context_engine.apps.cli.options import FILE
from context_engine.apps.cli.progress import progress_bar
from context_engine.core.models import DomainSpec, NoticeCode, SourceSpec
from context_engine.errors import ConfigError, ContextEngineError, InvalidRequest, SourceError

if TYPE_CHECKING:
    from context_engine.core.protocols import Sink
    from context_engine.ingest.report import IngestReport
    from context_engine.wiring.models import Models
    from context_engine.wiring.scope import DomainCalibration

INTERVAL_S: Final = 2.0
"""Seconds between two looks at the files with --watch."""

_FIRST_NOTE_S: Final = 10.0  # shorter waits are not worth a line
_DEFAULT_ADAPTER: Final = "local"

EPILOG: Final = """\b
Examples:
  context-engine ingest documents --domain HANDBOOK --dry-run
  context-engine ingest documents --domain HANDBOOK --prune
  context-engine ingest documents --domain HANDBOOK --to dify --watch
  context-engine ingest notice.md --domain NPA --source npa_external_official
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class IngestCommand:
    """The arguments of the command."""

    path: Path
    domain: str
    to: str
    source_id: str | None
    namespace: str | None
    prune: bool
    allow_empty: bool
    dry_run: bool
    force: bool
    repair: bool
    jobs: int
    as_json: bool
    write_ids: Path | None
    location: ConfigLocation

    def arguments(self) -> list[str]:
        """Return the command's arguments without the options of pruning and of the report."""
        location = self.location
        named = (
            ("--domain", self.domain),
            ("--to", self.to if self.to != _DEFAULT_ADAPTER else None),
            ("--source", self.source_id),
            ("--namespace", self.namespace),
            ("--config-dir", location.config_dir),
            ("--data-dir", location.data_dir),
            ("--stage", location.stage),
        )
        return [str(self.path), *(part for name, value in named if value is not None for part in (name, value))]


@click.command(epilog=EPILOG)
@click.argument("path")
@with_domain("The domain whose sources take the documents")
@click.option(
    "--to",
    metavar="ADAPTER",
    default=_DEFAULT_ADAPTER,
    show_default=True,
    help="Write to the sources of this adapter: local, dify (where each record of a table becomes a document), "
    "postgres, opensearch, neo4j, or another installed adapter that can be written to.",
)
@click.option("--source", "source_id", metavar="ID", help="Put every file into this source, regardless of the rules.")
@click.option(
    "--namespace", metavar="NAME", help="Ingest only into the sources of this namespace, each by its own rules."
)
@click.option("--prune", is_flag=True, help="Remove documents that are no longer in the folder.")
@click.option(
    "--allow-empty",
    is_flag=True,
    help="With --prune: also remove all documents of a source for which the folder holds nothing any more.",
)
@click.option("--dry-run", is_flag=True, help="Report what would be done and show some chunks; write nothing.")
@click.option("--force", is_flag=True, help="Read every file, even if its size and time are unchanged.")
@click.option(
    "--repair",
    is_flag=True,
    help="With --to dify: read the chunks of every document back from Dify and repair those that differ. With --to "
    "neo4j, opensearch or postgres: write every document and its vectors again.",
)
@click.option(
    "--write-ids",
    type=FILE,
    metavar="FILE",
    help="With --to dify: write the ids of new datasets into this manifest, or into a stage file "
    "(manifests/stages/NAME.yaml).",
)
@click.option("--watch", is_flag=True, help="Keep running until Ctrl-C: ingest again whenever a file has changed.")
@click.option(
    "--jobs",
    type=click.IntRange(0, 64),
    default=0,
    metavar="N",
    help="Processes that read and cut; 0 (the default) uses as many as are worthwhile.",
)
@click.option("--json", "as_json", is_flag=True, help="Write the report as one JSON object.")
@with_location
def ingest(path: str, location: ConfigLocation, domain: str | None, watch: bool, **options: Any) -> int:
    """Cut the documents of PATH into chunks and write them to a knowledge base.

    That is the embedded one, or with --to a dataset of Dify, PostgreSQL, OpenSearch or Neo4j.

    Markdown, plain text, templates of both (ERB, TMPL), RTF, messages (EML), notebooks (IPYNB), JSON, JSONL and CSV are
    read, and with the extra 'documents' DOCX, PPTX, ODT, XLSX, PDF, HTML, EPUB and Outlook's MSG. DOC, XLS, PPT, ODS
    and ODP files are read if LibreOffice is installed. Each document is cut along its structure, unless a type is
    declared; 'context-engine chunk FILE' shows how.

    Unchanged documents are skipped, so you can simply run an interrupted command again. A file whose size and
    modification time are those of the last run is not even read; --force reads it. Exit code 3: some files or folders
    could not be read, no file gave a document, a source was not pruned because the folder holds nothing of it any more,
    or some documents are not in Dify as they should be; the next run continues with them.
    """
    context = open_context(location, build_demo=False, operator=True)
    if context.demo:
        raise ConfigError("there is no domain of your own to ingest for. Write one with 'context-engine init DIR'.")
    domain = only_domain(context.setup.registry, domain)
    request = IngestCommand(path=Path(path), domain=domain, location=location, **options)
    if watch:
        _watch(context, request)
        return 0
    complete = ingest_once(context, request)
    return 0 if complete else DEGRADED


def ingest_once(context: CliContext, request: IngestCommand, *, rehearsed: bool = False) -> bool:
    """Run once and print the report; return whether every document is where it should be.

    Args:
        rehearsed: a draft of some documents goes into a copy of the base: the others are not missed.
    """
    from context_engine.adapters.sources.adapter import SinkOptions
    from context_engine.core.protocols import ReportingSink, SinkReport
    from context_engine.settings.dataset_ids import with_dataset_ids
    from context_engine.wiring.adapters import load_source_adapter
    from context_engine.wiring.embedded_base import in_embedded_base
    from context_engine.wiring.sinks import open_sink, target_sources

    domain = context.setup.registry.domain(request.domain)
    load_source_adapter(request.to)  # an adapter that is not installed is the first problem to report
    specs = target_sources(domain, request.to, request.source_id, request.namespace)
    if request.write_ids is not None:
        with_dataset_ids(request.write_ids, {})  # an unusable file is reported before anything is written
    models = context.setup.models(context.data_dir)
    sleep = noting_sleep(f"{request.to} (its rate limit, its indexing or an outage)")
    options = SinkOptions(dry_run=request.dry_run, repair=request.repair, sleep=sleep, tell=noting_once())
    with open_sink(
        context.setup, domain, specs, request.to, options, data_dir=context.data_dir, embedder=models.embedder
    ) as sink:
        report = _run(context, request, specs, sink)
    if rehearsed:
        notices = tuple(notice for notice in report.notices if notice.code is not NoticeCode.DOCUMENTS_GONE)
        report = replace(report, kept=(), notices=notices)
    calibrations: list[DomainCalibration] = []
    if not request.dry_run:
        written_to = [spec.id for spec in specs if request.source_id in (None, spec.id)]
        if all(map(in_embedded_base, specs)):
            remember_folder(context.base, request.path, written_to)
        keep_report(context, report, domain=request.domain, adapter=request.to, source_ids=written_to)
        calibrations = calibrate_store(context, models, domain, specs[0])
    written = report.added + report.replaced
    sink_report = sink.report(written) if isinstance(sink, ReportingSink) else SinkReport(request.to)
    advice = [*sink_report.advice, *_write_ids(request, sink_report.dataset_ids)]
    sink_report = sink_report._replace(advice=advice)
    looked = [] if request.dry_run else look_after_writing(context, [spec.id for spec in specs])
    embedder_use = models.embedder_use()
    commands = next_commands(report, request.arguments())
    if request.as_json:
        published = {**report.to_dict(), "to": request.to, "commands": commands}
        if sink_report.published is not None:
            published[request.to] = sink_report.published
        if embedder_use is not None:
            published["embedder"] = embedder_use.to_dict()
        if calibrations:
            published["calibrations"] = [calibration.to_dict() for calibration in calibrations]
        if looked:
            published["subscriptions"] = [each.to_dict() for each in looked]
        print_json(published)
    else:
        print_report(out(), report, sink_report, commands)
        if embedder_use is not None:
            note(str(embedder_use))
        print_calibrations(calibrations)
        print_changes(looked)
    complete = not report.errors and not report.refused and not sink_report.problems and not report.emptied
    return complete and (report.documents > 0 or not report.files)


def _write_ids(request: IngestCommand, ids: Mapping[str, str]) -> list[str]:
    """Write dataset ids into the file that the operator named, if any; return one line for each source.

    Raises:
        ConfigError: they cannot be written there; the message contains them.
    """
    from context_engine.settings.dataset_ids import with_dataset_ids

    file = request.write_ids
    if file is None or request.dry_run:
        return [
            f"source {source_id}: its dataset is not in the manifest yet. To search it, give the source dataset_ids: "
            f"[{dataset_id}], or run this command with --write-ids FILE"
            for source_id, dataset_id in ids.items()
        ]
    text = with_dataset_ids(file, ids) if ids else ""
    try:
        if text:
            file.write_text(text, "utf-8")
    except OSError as error:
        problem = f"cannot be written: {error.strerror or error}"
        raise ConfigError(problem, file=str(file), key="dataset_ids") from None
    return [f"source {source_id}: dataset {dataset_id} is now in {file}" for source_id, dataset_id in ids.items()]


def noting_once() -> Callable[[str], None]:
    """Return a function that notes that a failed call is retried, once for each problem."""
    noted = set[str]()

    def tell(problem: str) -> None:
        if problem not in noted:
            noted.add(problem)
            note(f"{problem}; trying again …")

    return tell


def noting_sleep(reason: str) -> Callable[[float], None]:
    """Return a sleep that notes the total waiting time, each time it has tripled.

    Args:
        reason: the reason for the wait, for the note.
    """
    waited, due = 0.0, _FIRST_NOTE_S

    def wait(seconds: float) -> None:
        nonlocal waited, due
        waited += seconds
        if waited >= due:
            note(f"Waiting for {reason}: {waited:.0f} s so far.")
            due = waited * 3
        time.sleep(seconds)

    return wait


def calibrate_store(
    context: CliContext, models: Models, domain: DomainSpec, written: SourceSpec
) -> list[DomainCalibration]:
    """Calibrate every domain of the store that was written to, if it offers calibration and changed enough.

    A failure does not fail the command: the documents are written, and a default threshold is used.

    Args:
        written: a source that was written to.

    Returns:
        The result of this domain, and all failures.
    """
    from context_engine.core.protocols import Calibratable
    from context_engine.evaluation.learning.taught_base import judged_questions
    from context_engine.wiring.build import source_opener
    from context_engine.wiring.examine import offered
    from context_engine.wiring.scope import DomainCalibration, calibrate_domains

    opener = source_opener(context.setup, data_dir=context.data_dir, embedder=models.embedder)
    try:
        with closing(opener.open(domain, written)) as source:
            store = offered(source, Calibratable)
            if store is None:
                return []
            judged = judged_questions(context.setup)
            results = list(calibrate_domains(context.setup, store, judged=judged, adapter=written.adapter))
    except ContextEngineError as error:
        return [DomainCalibration(domain.domain, (), str(error))]
    return [result for result in results if result.domain == domain.domain or result.problem is not None]


def _run(context: CliContext, request: IngestCommand, specs: Sequence[SourceSpec], sink: Sink) -> IngestReport:
    from context_engine.adapters.token_counters import open_counter
    from context_engine.ingest.reading import IngestOptions
    from context_engine.ingest.run import ingest as run
    from context_engine.ingest.scan_cache import ScanCache

    domain = context.setup.registry.domain(request.domain)
    effective = context.setup.resolver.base(domain)
    options = IngestOptions(
        strategies=context.setup.config.chunking,
        max_chunk_tokens=effective.chunk_limit,
        counter=open_counter(effective.values.token_counter, env=context.setup.env),
        jobs=request.jobs,
        settings=context.setup.config.ingest,
    )
    beside = () if request.namespace is None else [spec for spec in domain.sources if spec not in specs]
    remembered = "-".join(filter(None, ("files", request.to, request.namespace)))
    try:
        with progress_bar("Ingesting …") as progress:
            return run(
                request.path, specs, sink,
                source_id=request.source_id, beside=beside, options=options, dry_run=request.dry_run, progress=progress,
                prune=request.prune, allow_empty=request.allow_empty,
                memory=ScanCache(context.data_dir / f"{remembered}.json", force=request.force),
            )  # fmt: skip
    except SourceError:
        note("What was written stays: run the command again to continue.")
        raise


def _watch(context: CliContext, request: IngestCommand) -> None:
    """Ingest whenever the files have changed since the last run, until Ctrl-C; an outage is retried."""
    if not request.path.exists():
        raise InvalidRequest(f"{request.path} does not exist: give a folder or a file to ingest")
    ingested: frozenset[tuple[str, int, int]] | None = None
    try:
        while True:
            current = _file_states(request.path)
            if current != ingested:
                try:
                    ingest_once(context, request)
                    sys.stdout.flush()  # a reader of a pipe gets each report at once, not when a block is full
                    ingested = current
                except SourceError as error:
                    error_line(str(error))
                note(f"Watching {request.path}; Ctrl-C ends it.")
            time.sleep(INTERVAL_S)
    except KeyboardInterrupt:
        note("Stopped.")


def _file_states(path: Path) -> frozenset[tuple[str, int, int]]:
    """Return name, size and modification time (ns) of every file."""
    files = [path] if not path.is_dir() else [Path(at, name) for at, _, names in os.walk(path) for name in names]
    states = set()
    for file in files:
        try:
            status = file.stat()
        except OSError:  # deleted since the listing
            continue
        states.add((str(file), status.st_size, status.st_mtime_ns))
    return frozenset(states)
