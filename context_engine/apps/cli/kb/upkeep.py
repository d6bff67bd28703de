"""`kb stats`, `verify`, `calibrate`, `rebuild`, `repartition` and `adopt`."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING

import click
from rich.table import Table
from rich.text import Text

from context_engine.apps.cli.app import FAILURE
from context_engine.apps.cli.console import clean, note, out, print_json, show, table
from context_engine.apps.cli.context import ConfigLocation, open_context, with_location
from context_engine.apps.cli.kb.adapter import adapter_lines
from context_engine.apps.cli.kb.base import busy, calibration_text, judged_questions, opened_base, print_calibrations
from context_engine.apps.cli.words import counted

if TYPE_CHECKING:
    from context_engine.wiring.embedded_base import BaseStats, LocalBase, PartitionStats


@click.command(epilog="\b\nExample:\n  context-engine kb stats --data-dir /srv/context-engine")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_location
def stats(location: ConfigLocation, as_json: bool) -> None:
    """Show what the base holds."""
    with opened_base(location) as base:
        facts = base.stats()
    if as_json:
        sources = {name: one._asdict() for name, one in facts.sources.items()}
        scope = [{"domain": domain, "partition": key, **asdict(one)} for domain, key, one in facts.calibrations]
        adapters = [one._asdict() for one in facts.adapters]
        parts = {"sources": sources, "calibrations": scope, "adapters": adapters}
        print_json({**asdict(facts), **parts})
        return
    console = out()
    show(console, _facts(facts))
    console.print()
    rows = ((name, held.documents, held.chunks) for name, held in facts.sources.items())
    show(console, table(("source", ">documents", ">chunks"), rows))
    if len(facts.partitions) > 1:
        console.print()
        show(console, _partitions(facts.partitions))


@click.command(epilog="\b\nExample:\n  context-engine kb verify || context-engine kb rebuild")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_location
def verify(location: ConfigLocation, as_json: bool) -> None:
    """Check that rows are as they were written and each is indexed once; exit code 1 if not."""
    with opened_base(location) as base, busy("Verifying …"):
        report = base.verify()
    if as_json:
        print_json({"ok": report.ok, **asdict(report)})
    else:
        console = out()
        for problem in report.problems:
            show(console, Text(clean(problem), "red"))
        counts = f"{report.documents} documents, {report.chunks} chunks, {report.indexed} indexed"
        show(
            console,
            Text("sound" if report.ok else "damaged", "green" if report.ok else "red").append(f": {counts}", ""),
        )
    click.get_current_context().exit(0 if report.ok else FAILURE)


@click.command(epilog="\b\nExample:\n  context-engine kb calibrate")
@with_location
def calibrate(location: ConfigLocation) -> None:
    """Calibrate the scope threshold of every domain to what the base holds now.

    'ingest' does it by itself whenever a fifth of the base has changed. Sentences of the base and off-topic questions
    are asked; below the threshold that tells them apart a question is out of scope. Questions that 'eval judge' wrote
    into judgements.jsonl, in the configuration folder, stay above it. Each access class is calibrated by itself.
    """
    with opened_base(location, embedder=True) as base:
        good = _calibrate(location, base)
    click.get_current_context().exit(0 if good else FAILURE)


@click.command(epilog="\b\nExample:\n  context-engine kb rebuild")
@with_location
def rebuild(location: ConfigLocation) -> None:
    """Build the index anew from the rows, and vectors that another embedder made; searches go on meanwhile.

    The scope threshold of each domain is calibrated anew.
    """
    with opened_base(location, embedder=True) as base:
        with busy("Rebuilding the index …"):
            damaged = base.rebuild()
        facts = base.stats()
        _calibrate(location, base)
    show(out(), Text("rebuilt", "green").append(f": {facts.documents} documents, {facts.chunks} chunks", ""))
    if damaged:
        note(f"{counted(damaged, 'document')} with damaged rows: run 'context-engine ingest' now to write them again.")


@click.command(epilog="\b\nExample:\n  context-engine kb repartition")
@with_location
def repartition(location: ConfigLocation) -> None:
    """Move documents to where the access rules of their sources say now; searches go on meanwhile.

    Each access class has an index of its own. After a change of access rules, or of a classification, searches of the
    sources concerned fail until this command, or the next 'ingest' into them, has moved their documents. Nothing is
    embedded again.
    """
    with opened_base(location, embedder=True) as base:
        with busy("Moving documents …"):
            moved = base.repartition()
        if moved:
            _calibrate(location, base, anew=False)
    summary = f"{counted(moved, 'document')} moved" if moved else "every document stands where the rules say"
    show(out(), Text("repartitioned" if moved else "nothing to do", "green").append(f": {summary}", ""))


def _calibrate(location: ConfigLocation, base: LocalBase, *, anew: bool = True) -> bool:
    """Calibrate every domain, anew or where it is due; return whether all could be."""
    from context_engine.wiring import calibrate_domains

    setup = open_context(location, build_demo=False, operator=True).setup
    with busy("Calibrating …"):
        calibrations = list(calibrate_domains(setup, base, judged=judged_questions(setup), anew=anew))
    return print_calibrations(calibrations)


@click.command(epilog="\b\nExample:\n  context-engine kb adopt my-bank-1f2e3d4c")
@click.argument("name", metavar="NAME")
@with_location
def adopt(location: ConfigLocation, name: str) -> None:
    """Take over the knowledge base of a configuration that was moved here.

    A configuration that is moved or renamed finds its base again by itself. Where its folder could not be written to
    when the base was made, the warning of any other command names the base that was left behind: NAME is its folder's.
    """
    from context_engine.settings.data_dir import adopt_data_dir
    from context_engine.wiring import load_setup

    setup = load_setup(config_dir=location.config_dir, stage=location.stage)
    path = adopt_data_dir(name, setup.config.paths, setup.registry.names, env=setup.env)
    show(out(), Text("adopted", "green").append(f": {path}", ""))


def _facts(stats: BaseStats) -> Table:
    behind = (
        "unreadable: run 'kb rebuild'"
        if stats.lag is None
        else "up to date"
        if not stats.lag
        else f"{stats.lag} behind"
    )
    rows = (
        ("path", stats.path),
        ("documents", str(stats.documents)),
        ("chunks", str(stats.chunks)),
        ("size", _size(stats.bytes)),
        ("commits", str(stats.generation)),
        ("index", behind),
        ("vectors", _vectors(stats)),
        ("schema, analyser", f"{stats.schema_version}, {stats.analyser_version}"),
        *adapter_lines(stats.adapters),
        *_calibrations(stats),
    )
    return table(("", ""), rows, header=False)


def _partitions(partitions: Sequence[PartitionStats]) -> Table:
    """Who may read how much: each row is an index of its own."""
    rows = []
    for partition in partitions:
        admits = "whom the rules admit" if partition.rules else "everybody"
        sources = ", ".join(partition.sources)
        rows.append(
            (partition.key, admits, partition.classification or "none", sources, partition.documents, partition.chunks)
        )
    return table((">partition", "open to", "clearance", "sources", ">documents", ">chunks"), rows)


def _calibrations(stats: BaseStats) -> Iterator[tuple[str, str]]:
    """Yield what each domain was calibrated to in each partition: for the text alone, with an embedder for both."""
    if not stats.calibrations:
        yield "scope threshold", "not calibrated, a measured default is used: run 'kb calibrate'"
    parted = len({calibration.partition for calibration in stats.calibrations}) > 1
    for domain, partition, calibration in stats.calibrations:
        where = f" in partition {partition}" if parted else ""
        yield f"scope threshold of {domain}{where}", calibration_text(calibration)


def _vectors(stats: BaseStats) -> str:
    if stats.model_id is None:
        return "none: no embedder is configured, or nothing was ingested with it"
    how = f"searched in {stats.cells} cells" if stats.cells else "searched exactly"
    missing = f", {stats.chunks - stats.embedded} chunks without" if stats.embedded < stats.chunks else ""
    return f"{stats.embedded} of {stats.model_id}, {stats.dimension} dimensions in {stats.vector_form}, {how}{missing}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
