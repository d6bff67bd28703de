"""What a run of `ingest` did, for a person."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from rich.console import Console
from rich.table import Table
from rich.text import Text

from context_engine.cli.console import clean, note, show
from context_engine.cli.words import counted

if TYPE_CHECKING:
    from context_engine.ingest import IngestReport

__all__ = ["print_report"]

_MOST_SHOWN: Final = 10
_MOST_TEXT: Final = 160
_MANY: Final = 500  # documents that take Dify minutes


def print_report(console: Console, report: IngestReport, place: str, dify: Mapping[str, Any] | None) -> None:
    """Print the counts, what went wrong, and for a dry run some chunks.

    Args:
        console: stdout's.
        report: of the run.
        place: where it wrote.
        dify: what Dify accepted, where it wrote to Dify.
    """
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column()
    table.add_column(justify="right")
    for name, count in _rows(report):
        table.add_row(name, Text(str(count), "" if count else "dim"))
    show(console, table)
    _skipped(console, report)
    _listed(console, [f"refused: {one}" for one in report.refused], "red")
    _listed(console, [f"warning: {one}" for one in report.warnings], "yellow")
    if dify is not None:
        _accepted(console, dify, report)
    _samples(console, report)
    note("Dry run: nothing was written." if report.dry_run else f"{report.elapsed_s:.1f} s, {place}")


def _rows(report: IngestReport) -> Sequence[tuple[str, int]]:
    rows = [
        ("files", report.files),
        ("documents", report.documents),
        ("  new", report.added),
        ("  replaced", report.replaced),
        ("  unchanged", report.unchanged),
    ]
    if report.refused:
        rows.append(("  refused", len(report.refused)))
    written = "chunks to write" if report.dry_run else "chunks written"
    return [*rows, ("removed", report.removed), (written, report.chunks), ("skipped", len(report.skipped))]


def _skipped(console: Console, report: IngestReport) -> None:
    """Print what should have worked file by file, the rest by reason."""
    if report.skipped:
        console.print()
    _listed(console, [f"could not be read: {one}" for one in report.errors], "red")
    reasons = Counter(one.reason for one in report.skipped if not one.error)
    for reason, count in reasons.most_common(_MOST_SHOWN):
        example = next(one.path for one in report.skipped if one.reason == reason)
        told = f"{count} skipped: {reason} (e.g. {example})" if count > 1 else f"{example} skipped: {reason}"
        show(console, Text(clean(told), "dim"))


def _listed(console: Console, lines: Sequence[str], style: str) -> None:
    for line in lines[:_MOST_SHOWN]:
        show(console, Text(clean(line), style))
    if len(lines) > _MOST_SHOWN:
        show(console, Text(f"and {len(lines) - _MOST_SHOWN} more (--json has all)", "dim"))


def _accepted(console: Console, dify: Mapping[str, Any], report: IngestReport) -> None:
    """Print what Dify says it holds, and which dataset a source got."""
    dry_run = report.dry_run
    for one in dify["datasets"]:
        if one["dataset_id"] is None and dry_run:
            show(console, Text(clean(f"source {one['source']}: dataset {one['name']!r} would be created"), "yellow"))
        elif one["new"]:
            told = f"source {one['source']}: dataset {one['name']!r} was created. To search it, give the source"
            show(console, Text(clean(f"{told} dataset_ids: [{one['dataset_id']}]"), "yellow"))
    _listed(console, [f"Dify: {one}" for one in dify["notes"]], "yellow")
    _listed(console, [f"not as it was written: {_named(one)}: {one['reason']}" for one in dify["damaged"]], "red")
    if dry_run and (count := report.added + report.replaced) >= _MANY:
        told = (
            f"{count} documents are {count} documents in Dify too, one for each record, with at least {3 * count} calls"
        )
        show(console, Text(f"{told}; the embedded base (--to local) takes a large table in seconds", "yellow"))
    if not dry_run:
        old = f", {counted(dify['deleted'], 'old document')} deleted" if dify["deleted"] else ""
        left = f", {counted(dify['leftovers'], 'leftover')} of a broken run removed" if dify["leftovers"] else ""
        twice = f", {counted(dify['doubled'], 'doubled document')} removed" if dify["doubled"] else ""
        told = f"Dify took {counted(dify['documents'], 'document')} with {counted(dify['segments'], 'chunk')}"
        note(f"{told}{old}{left}{twice}; {counted(dify['calls'], 'call')}")


def _named(one: Mapping[str, str]) -> str:
    return " ".join(part for part in (one["source_id"], one["document_id"], one["version"]) if part)


def _samples(console: Console, report: IngestReport) -> None:
    if report.samples:
        console.print()
        show(console, Text("some of the chunks:", "bold"))
    for chunk in report.samples:
        text = " ".join(chunk.content.split())
        shown = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
        show(console, Text(clean(f"  {chunk.chunk_id}"), "cyan").append(clean(f"  {shown}"), ""))
