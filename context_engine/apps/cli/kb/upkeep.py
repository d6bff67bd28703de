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
    from context_engine.adapters.sources.local import BaseStats, LocalBase, PartitionStats


@click.command(epilog="\b\nExample:\n  context-engine kb stats --data-dir /srv/context-engine")
@click.option("--json", "as_json", is_flag=True, help="Write one JSON object.")
@with_location
def stats(location: ConfigLocation, as_json: bool) -> None:
    """Show what the base holds."""
    with opened_base(location) as base:
        found = base.stats()
    if as_json:
        sources = {name: one._asdict() for name, one in found.sources.items()}
        scope = [{"domain": domain, "partition": key, **asdict(one)} for domain, key, one in found.calibrations]
        adapters = [one._asdict() for one in found.adapters]
        parts = {"sources": sources, "calibrations": scope, "adapters": adapters}
        print_json({**asdict(found), **parts})
        return
    console = out()
    show(console, _facts(found))
    console.print()
    rows = ((name, held.documents, held.chunks) for name, held in found.sources.items())
    show(console, table(("source", ">documents", ">chunks"), rows))
    if len(found.partitions) > 1:
        console.print()
        show(console, _partitions(found.partitions))


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
        found = base.stats()
        _calibrate(location, base)
    show(out(), Text("rebuilt", "green").append(f": {found.documents} documents, {found.chunks} chunks", ""))
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
    what = f"{counted(moved, 'document')} moved" if moved else "every document stands where the rules say"
    show(out(), Text("repartitioned" if moved else "nothing to do", "green").append(f": {what}", ""))


def _calibrate(location: ConfigLocation, base: LocalBase, *, anew: bool = True) -> bool:
    """Calibrate every domain, anew or where it is due; return whether all could be."""
    from context_engine.wiring import calibrate_domains

    setup = open_context(location, build_demo=False, operator=True).setup
    with busy("Calibrating …"):
        found = list(calibrate_domains(setup, base, judged=judged_questions(setup), anew=anew))
    return print_calibrations(found)


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


def _facts(found: BaseStats) -> Table:
    behind = (
        "unreadable: run 'kb rebuild'"
        if found.lag is None
        else "up to date"
        if not found.lag
        else f"{found.lag} behind"
    )
    rows = (
        ("path", found.path),
        ("documents", str(found.documents)),
        ("chunks", str(found.chunks)),
        ("size", _size(found.bytes)),
        ("commits", str(found.generation)),
        ("index", behind),
        ("vectors", _vectors(found)),
        ("schema, analyser", f"{found.schema_version}, {found.analyser_version}"),
        *adapter_lines(found.adapters),
        *_calibrations(found),
    )
    return table(("", ""), rows, header=False)


def _partitions(found: Sequence[PartitionStats]) -> Table:
    """Who may read how much: each row is an index of its own."""
    rows = []
    for one in found:
        admits = "whom the rules admit" if one.rules else "everybody"
        sources = ", ".join(one.sources)
        rows.append((one.key, admits, one.classification or "none", sources, one.documents, one.chunks))
    return table((">partition", "open to", "clearance", "sources", ">documents", ">chunks"), rows)


def _calibrations(found: BaseStats) -> Iterator[tuple[str, str]]:
    """Yield what each domain was calibrated to in each partition: for the text alone, with an embedder for both."""
    if not found.calibrations:
        yield "scope threshold", "not calibrated, a measured default is used: run 'kb calibrate'"
    parted = len({one.partition for one in found.calibrations}) > 1
    for domain, partition, one in found.calibrations:
        where = f" in partition {partition}" if parted else ""
        yield f"scope threshold of {domain}{where}", calibration_text(one)


def _vectors(found: BaseStats) -> str:
    if found.model_id is None:
        return "none: no embedder is configured, or nothing was ingested with it"
    how = f"searched in {found.cells} cells" if found.cells else "searched exactly"
    missing = f", {found.chunks - found.embedded} chunks without" if found.embedded < found.chunks else ""
    return f"{found.embedded} of {found.model_id}, {found.dimension} dimensions in {found.vector_form}, {how}{missing}"


def _size(count: int) -> str:
    size = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            break
        size /= 1000
    return f"{size:.0f} {unit}" if unit == "B" or size >= 10 else f"{size:.1f} {unit}"
