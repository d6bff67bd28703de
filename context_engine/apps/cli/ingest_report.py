"""The report of an `ingest` run, and the commands that settle what it left."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from context_engine.apps.cli.console import clean, note, show, table
from context_engine.core.models import NoticeCode

if TYPE_CHECKING:
    from context_engine.core.models import Notice
    from context_engine.core.protocols import SinkReport
    from context_engine.ingest import IngestReport, Skipped
    from context_engine.ingest.documents import CutBy


_FLAGS: Final = {
    NoticeCode.NOT_PRUNED: ("--prune",),
    NoticeCode.DOCUMENTS_GONE: ("--prune",),
    NoticeCode.SOURCE_EMPTIED: ("--prune", "--allow-empty"),
}


def next_commands(report: IngestReport, arguments: Sequence[str]) -> list[str]:
    """Return the commands that remove what was kept, for a shell; the causes say when each may be given.

    Args:
        report: of the run.
        arguments: of the run, without the flags of pruning.
    """
    wanted = dict.fromkeys(_FLAGS[kept.reason] for kept in report.kept)
    return [shlex.join(("context-engine", "ingest", *arguments, *flags)) for flags in wanted]


_MOST_SHOWN: Final = 10

_MOST_TEXT: Final = 160

_MOST_LINE: Final = 400

_CUT_BY: Final[Sequence[tuple[CutBy, str]]] = (
    ("declared", "as their type or profile says"),
    ("sections", "by sections (headings found)"),
    ("fields", "by fields (records)"),
    ("windows", "in windows (no sections found)"),
)

_OFTEN: Final = 4  # warnings of one kind that are shown as one line


def print_report(console: Console, report: IngestReport, sink: SinkReport, commands: Sequence[str] = ()) -> None:
    """Print the counts, what went wrong, and for a dry run some chunks.

    Args:
        console: stdout's.
        report: of the run.
        sink: what the sink has to say of it.
        commands: that settle what was not removed.
    """
    rows = ((name, Text(str(count), "" if count else "dim")) for name, count in _rows(report))
    show(console, table(("", ">"), rows, header=False))
    if cut := _cut_by(report):
        show(console, Text(cut, "dim"))
    _skipped(console, report)
    _listed(console, [f"refused: {one}" for one in report.refused], "red")
    _listed(console, [f"warning: {one}" for one in _grouped(report.notices)], "yellow")
    for command in commands:
        show(console, Text(f"  {clean(command)}", "bold"))
    for line in sink.advice:
        show(console, Text(clean(line), "yellow"))
    _listed(console, sink.remarks, "yellow")
    _listed(console, sink.problems, "red")
    if sink.outcome:
        note(sink.outcome)
    _samples(console, report)
    note("Dry run: nothing was written." if report.dry_run else f"{report.elapsed_s:.1f} s, {sink.place}")


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
    rows.append(("removed", report.removed))
    if report.kept:
        rows.append(("gone, but kept", sum(len(kept.documents) for kept in report.kept)))
    return [*rows, (written, report.chunks), ("skipped", len(report.skipped))]


def _cut_by(report: IngestReport) -> str:
    """Return how many documents were cut in which way, and why, in words."""
    counts = [f"{report.cut_by[kind]:,} {words}" for kind, words in _CUT_BY if report.cut_by.get(kind)]
    return f"cut: {', '.join(counts)}" if counts else ""


def _skipped(console: Console, report: IngestReport) -> None:
    """Print what should have worked file by file, or by reason where several have one; the rest by reason."""
    if report.skipped:
        console.print()
    same = Counter(one.reason for one in report.errors if one.line is None)
    often = {reason for reason, count in same.items() if count > 1}
    told = [f"could not be read: {_counted(report.errors, reason, same[reason])}" for reason in sorted(often)]
    told += [f"could not be read: {one}" for one in report.errors if one.line or one.reason not in often]
    _listed(console, told, "red")
    reasons = Counter(one.reason for one in report.skipped if not one.error)
    for reason, count in reasons.most_common(_MOST_SHOWN):
        example = next(one.path for one in report.skipped if one.reason == reason)
        line = f"{count} skipped: {reason} (e.g. {example})" if count > 1 else f"{example} skipped: {reason}"
        show(console, Text(clean(line), "dim"))


def _counted(skipped: Sequence[Skipped], reason: str, count: int) -> str:
    """Return one line for all the files that could not be read for one reason."""
    paths = [skip.path for skip in skipped if skip.reason == reason]
    suffixes = sorted({PurePath(path).suffix.lower() for path in paths})
    kinds = f" ({', '.join(suffixes)})" if all(suffixes) else ""
    return f"{count} files{kinds}: {reason} (e.g. {paths[0]})"


def _grouped(notices: Sequence[Notice]) -> list[str]:
    """Return the notices as lines; those of one kind about several files are one line, so that they hide no others."""
    counts = Counter(one.code for one in notices)
    lines = [f"{one.subject}: {one.message}" for one in notices if counts[one.code] < _OFTEN]
    for code in (code for code, count in counts.items() if count >= _OFTEN):
        first = next(one for one in notices if one.code == code)
        lines.append(f"{counts[code]} times: {code.__doc__} (--json has all; e.g. {first.subject}: {first.message})")
    return lines


def _listed(console: Console, lines: Sequence[str], style: str) -> None:
    for line in lines[:_MOST_SHOWN]:
        show(console, Text(clean(line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]}… (--json has all)"), style))
    if len(lines) > _MOST_SHOWN:
        show(console, Text(f"and {len(lines) - _MOST_SHOWN} more (--json has all)", "dim"))


def _samples(console: Console, report: IngestReport) -> None:
    if report.samples:
        console.print()
        show(console, Text("some of the chunks:", "bold"))
    for chunk in report.samples:
        text = " ".join(chunk.content.split())
        shown = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
        show(console, Text(clean(f"  {chunk.chunk_id}"), "cyan").append(clean(f"  {shown}"), ""))
