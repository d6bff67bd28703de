"""`kb stats`, `verify`, `calibrate`, `rebuild`, `remove`, `repartition` and `adopt`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING

import click

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.audit.removal import drop_kept_answers
from context_engine.apps.cli.console import note, outcome, print_json, print_line, print_table, styled
from context_engine.apps.cli.context import CliContext, ConfigLocation, open_context, with_location
from context_engine.apps.cli.ingest import calibrate_store
from context_engine.apps.cli.kb.adapter import adapter_lines
from context_engine.apps.cli.kb.base import calibration_text, opened_base, print_calibrations
from context_engine.apps.cli.options import make_sure, with_json, with_yes
from context_engine.apps.cli.progress import busy, progress_bar
from context_engine.core.text import counted
from context_engine.errors import StoreError

if TYPE_CHECKING:
    from context_engine.wiring.embedded_base import BaseStats, LocalBase, PartitionStats


@click.command(epilog="\b\nExample:\n  context-engine kb stats --data-dir /srv/context-engine")
@with_json
@with_location
def stats(location: ConfigLocation, as_json: bool) -> None:
    """Show the content of the base, and when each source was last written.

    --json has the reports of past runs of 'ingest' too: the last of each source whole, others without their notices.
    """
    from context_engine.ingest.kept_reports import KeptReports

    with opened_base(location) as base:
        facts, ingests = base.stats(), KeptReports(base.path).all()
    if as_json:
        sources = {name: source._asdict() for name, source in facts.sources.items()}
        calibrations = [{"domain": domain, "partition": key, **asdict(row)} for domain, key, row in facts.calibrations]
        adapters = [stored._asdict() for stored in facts.adapters]
        published = {**asdict(facts), "sources": sources, "calibrations": calibrations, "adapters": adapters}
        print_json({**published, "ingests": [report.to_dict() for report in ingests]})
        return
    print_table(("", ""), _facts(facts), header=False)
    print_line()
    last = {source_id: report.at for report in reversed(ingests) for source_id in report.sources}
    rows = (
        (name, source.documents, source.chunks, last.get(name, "")[:16].replace("T", " "))
        for name, source in facts.sources.items()
    )
    print_table(("source", ">documents", ">chunks", "last ingest"), rows)
    if len(facts.partitions) > 1:
        print_line()
        columns = (">partition", "open to", "clearance", "sources", ">documents", ">chunks")
        print_table(columns, map(_partition_row, facts.partitions))


@click.command(epilog="\b\nExample:\n  context-engine kb verify || context-engine kb rebuild")
@with_json
@with_location
def verify(location: ConfigLocation, as_json: bool) -> int:
    """Check that all rows are unchanged since they were written and indexed once; exit code 1 if not."""
    with opened_base(location) as base, busy("Verifying …"):
        report = base.verify()
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        for problem in report.problems:
            print_line(problem, "red")
        state = ("sound", "green") if report.ok else ("damaged", "red")
        counts = f"{report.documents} documents, {report.chunks} chunks, {report.indexed} indexed"
        print_line(styled(state, f": {counts}"))
    return 0 if report.ok else FAILURE


@click.command(epilog="\b\nExample:\n  context-engine kb calibrate")
@with_location
def calibrate(location: ConfigLocation) -> int:
    """Calibrate the scope threshold of every domain to the current content of the base.

    'ingest' does this itself whenever a fifth of the base has changed. Sentences of the base and off-topic questions
    are searched; a question below the threshold that separates them is out of scope. Questions that 'eval judge'
    recorded in judgements.jsonl, in the configuration folder, stay above it. Each access class has its own threshold.
    """
    with opened_base(location, embedder=True) as base:
        all_calibrated = _calibrate(location, base)
    return 0 if all_calibrated else FAILURE


@click.command(epilog="\b\nExample:\n  context-engine kb rebuild")
@with_location
def rebuild(location: ConfigLocation) -> None:
    """Rebuild the index from the rows, and vectors made by another embedder; searches continue meanwhile.

    The scope threshold of each domain is calibrated again.
    """
    with opened_base(location, embedder=True) as base:
        with progress_bar("Rebuilding the index …") as progress:
            progress(0, 1, "")  # the index first, then the vectors that are missing
            damaged = base.rebuild(lambda done, total: progress(done, total, ""))
        facts = base.stats()
        _calibrate(location, base)
    outcome("rebuilt", f"{facts.documents} documents, {facts.chunks} chunks")
    if damaged:
        note(f"{counted(damaged, 'document')} with damaged rows: run 'context-engine ingest' now to write them again.")


@click.command(epilog="\b\nExample:\n  context-engine kb repartition")
@with_location
def repartition(location: ConfigLocation) -> None:
    """Move documents to the partitions that the access rules of their sources require; searches continue meanwhile.

    Each access class has its own index. After a change of access rules or of a classification, searches of the affected
    sources fail until this command, or the next 'ingest' into them, has moved their documents. Nothing is embedded
    again.
    """
    with opened_base(location, embedder=True) as base:
        with busy("Moving documents …"):
            moved = base.repartition()
        if moved:
            _calibrate(location, base, anew=False)
    if moved:
        outcome("repartitioned", f"{counted(moved, 'document')} moved")
    else:
        outcome("nothing to do", "every document is where the rules require")


def _calibrate(location: ConfigLocation, base: LocalBase, *, anew: bool = True) -> bool:
    """Calibrate every domain, or with `anew=False` those that are due; return whether all could be calibrated."""
    from context_engine.evaluation.learning.taught_base import judged_questions
    from context_engine.wiring.scope import calibrate_domains

    setup = open_context(location, build_demo=False, operator=True).setup
    with busy("Calibrating …"):
        calibrations = list(calibrate_domains(setup, base, judged=judged_questions(setup), anew=anew))
    return print_calibrations(calibrations)


@click.command(epilog="\b\nExample:\n  context-engine kb remove products --dry-run")
@click.argument("names", metavar="NAME...", nargs=-1, required=True)
@click.option("--domain", "-d", metavar="NAME", help="Only sources of this domain [default: of every domain].")
@click.option("--dry-run", is_flag=True, help="Only report what would be removed.")
@with_yes
@with_json
@with_location
def remove(
    location: ConfigLocation, names: tuple[str, ...], domain: str | None, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Remove all documents of sources, by id or namespace, from their stores, indexes and caches.

    NAME is the id or the namespace of sources in the manifests, which stay as they are. Sources in the embedded base,
    in a database and in Dify are emptied; the indexes are rebuilt, so that no file of the base keeps their text. The
    ledger keeps what was shown of them: 'audit erase' deletes that.
    """
    from context_engine.adapters.sources.adapter import SinkOptions
    from context_engine.wiring.sinks import groups_named, open_sink, remove_documents

    context = open_context(location, build_demo=False, operator=True)
    groups = groups_named(context.setup.registry, names, domain)
    ids = frozenset(spec.id for group in groups for spec in group.specs)
    if not dry_run:
        make_sure(f"Remove all documents of {', '.join(sorted(ids))}?", yes=yes)
    models = context.setup.models(context.data_dir)
    counts, left = dict[str, int](), list[str]()
    for of_domain, specs in groups:
        options = SinkOptions(dry_run=dry_run)
        with (
            busy("Removing …", quiet=True),
            open_sink(
                context.setup, of_domain, specs, specs[0].adapter, options, data_dir=context.data_dir,
                embedder=models.embedder,
            ) as sink,
        ):  # fmt: skip
            removed, copies = remove_documents(specs, sink, dry_run=dry_run)
        counts |= removed
        left += [copies] if copies else []
        if not dry_run:
            print_calibrations(calibrate_store(context, models, of_domain, specs[0]))
    if not dry_run:
        _forget(context, ids)
    if as_json:
        print_json({"dry_run": dry_run, "sources": counts, "left": left})
    else:
        outcome("would be removed" if dry_run else "removed", _removed(counts))
        for copies in left:
            note(copies)


def _forget(context: CliContext, source_ids: frozenset[str]) -> None:
    """Remove sources from the files beside the base, and the answers that replicas share."""
    from context_engine.core.engine import SystemClock
    from context_engine.ingest.files import IngestedFolders
    from context_engine.ingest.kept_reports import KeptReports
    from context_engine.ingest.scan_cache import forget_sources

    try:
        IngestedFolders(context.base).forget(source_ids)
        KeptReports(context.base).forget(source_ids)
        forget_sources(context.data_dir, source_ids)
    except OSError as error:
        raise StoreError(f"the documents are removed, but a file beside the base is not: {error}") from error
    drop_kept_answers(context.setup, SystemClock())


def _removed(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{counted(count, 'document')} of {source_id}" for source_id, count in sorted(counts.items()))


@click.command(epilog="\b\nExample:\n  context-engine kb adopt my-bank-1f2e3d4c")
@click.argument("name", metavar="NAME")
@with_location
def adopt(location: ConfigLocation, name: str) -> None:
    """Take over the knowledge base of a configuration that was moved here.

    A configuration that is moved or renamed normally finds its base again. If its folder was not writable when the base
    was made, the other commands warn and name the folder of the base that was left behind: this is NAME.
    """
    from context_engine.settings.data_dir import adopt_data_dir

    setup = location.load()
    path = adopt_data_dir(name, setup.config.paths, setup.registry.names, env=setup.env)
    outcome("adopted", str(path))


def _facts(stats: BaseStats) -> Iterator[tuple[str, object]]:
    index = f"{stats.lag} behind" if stats.lag else "up to date"
    yield "path", stats.path
    yield "documents", stats.documents
    yield "chunks", stats.chunks
    yield "size", _size(stats.bytes)
    yield "commits", stats.generation
    yield "index", "unreadable: run 'kb rebuild'" if stats.lag is None else index
    yield "vectors", _vectors(stats)
    yield "schema, analyser", f"{_schema(stats.schema_version)}, {stats.analyser_version}"
    yield from adapter_lines(stats.adapters)
    yield from _calibrations(stats)


def _schema(version: int) -> str:
    from context_engine.wiring.embedded_base import schema_version

    newest = schema_version()
    return str(version) if version == newest else f"{version} (older: 'kb rebuild' upgrades it to {newest})"


def _partition_row(partition: PartitionStats) -> tuple[object, ...]:
    """Return a partition, which has an index of its own, and who may read it."""
    readers = "those the rules admit" if partition.rules else "everybody"
    sources, clearance = ", ".join(partition.sources), partition.classification or "none"
    return (partition.key, readers, clearance, sources, partition.documents, partition.chunks)


def _calibrations(stats: BaseStats) -> Iterator[tuple[str, str]]:
    """Yield a label and the threshold for each domain and partition: by text, and by vectors if there are any."""
    if not stats.calibrations:
        yield "scope threshold", "not calibrated, a measured default is used: run 'kb calibrate'"
    partitions = {partition for _, partition, _ in stats.calibrations}
    for domain, partition, calibration in stats.calibrations:
        where = f" in partition {partition}" if len(partitions) > 1 else ""
        yield f"scope threshold of {domain}{where}", calibration_text(calibration)


def _vectors(stats: BaseStats) -> str:
    if stats.model_id is None:
        return "none: no embedder is configured, or nothing was ingested with it"
    search = f"searched in {stats.cells} cells" if stats.cells else "searched exactly"
    missing = f", {stats.chunks - stats.embedded} chunks without" if stats.embedded < stats.chunks else ""
    form = f"{stats.dimension} dimensions in {stats.vector_form}"
    return f"{stats.embedded} of {stats.model_id}, {form}, {search}{missing}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
