"""The report of an `ingest` run: printed with the commands that finish its open points, and kept."""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Sequence
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.text import Text

from context_engine.apps.cli.console import note, show, table
from context_engine.apps.web.inert import clean
from context_engine.core.models import NoticeCode

if TYPE_CHECKING:
    from context_engine.apps.cli.context import CliContext
    from context_engine.core.models import Notice
    from context_engine.core.protocols import SinkReport
    from context_engine.ingest.documents import CutBy
    from context_engine.ingest.loaded_document import Skipped
    from context_engine.ingest.report import IngestReport

_FLAGS: Final = {
    NoticeCode.NOT_PRUNED: ("--prune",),
    NoticeCode.DOCUMENTS_GONE: ("--prune",),
    NoticeCode.SOURCE_EMPTIED: ("--prune", "--allow-empty"),
}
_CUT_BY: Final[Sequence[tuple[CutBy, str]]] = (
    ("declared", "as their type or profile says"),
    ("sections", "by sections (headings found)"),
    ("fields", "by fields (records)"),
    ("windows", "in windows (no sections found)"),
)
_MOST_SHOWN: Final = 10
_MOST_TEXT: Final = 160
_MOST_LINE: Final = 400
_GROUPED_FROM: Final = 4  # so many warnings of one kind become one line


def next_commands(report: IngestReport, arguments: Sequence[str]) -> list[str]:
    """Return shell commands that remove the documents this run kept; run them only if that is intended.

    Args:
        report: of the run.
        arguments: of the run, without its pruning flags.
    """
    wanted = dict.fromkeys(_FLAGS[kept.reason] for kept in report.kept)
    return [shlex.join(("context-engine", "ingest", *arguments, *flags)) for flags in wanted]


def print_report(console: Console, report: IngestReport, sink: SinkReport, commands: Sequence[str] = ()) -> None:
    """Print the counts, the problems, and for a dry run some chunks.

    Args:
        commands: as `next_commands` returns them.
    """
    rows = ((name, Text(str(count), "" if count else "dim")) for name, count in _counts(report))
    show(console, table(("", ">"), rows, header=False))
    methods = [f"{report.cut_by[kind]:,} {words}" for kind, words in _CUT_BY if report.cut_by.get(kind)]
    if methods:
        show(console, Text(f"cut: {', '.join(methods)}", "dim"))
    _print_skipped(console, report)
    _print_lines(console, [f"refused: {refused}" for refused in report.refused], "red")
    _print_lines(console, [f"warning: {line}" for line in _grouped(report.notices)], "yellow")
    for command in commands:
        show(console, Text(f"  {clean(command)}", "bold"))
    for line in sink.advice:
        show(console, Text(clean(line), "yellow"))
    _print_lines(console, sink.remarks, "yellow")
    _print_lines(console, sink.problems, "red")
    if sink.outcome:
        note(sink.outcome)
    _print_samples(console, report)
    note("Dry run: nothing was written." if report.dry_run else f"{report.elapsed_s:.1f} s, {sink.place}")


def _counts(report: IngestReport) -> Sequence[tuple[str, int]]:
    rows = [
        ("files", report.files),
        ("documents", report.documents),
        ("  new", report.added),
        ("  replaced", report.replaced),
        ("  unchanged", report.unchanged),
    ]
    if report.refused:
        rows.append(("  refused", len(report.refused)))
    rows.append(("removed", report.removed))
    if report.kept:
        rows.append(("gone, but kept", sum(len(kept.documents) for kept in report.kept)))
    chunks = "chunks to write" if report.dry_run else "chunks written"
    return [*rows, (chunks, report.chunks), ("skipped", len(report.skipped))]


def _print_skipped(console: Console, report: IngestReport) -> None:
    """Print errors one by one, or as one line if several files have the same; other skipped files by reason."""
    if report.skipped:
        console.print()
    counts = Counter(skip.reason for skip in report.errors if skip.line is None)
    shared = {reason for reason, count in counts.items() if count > 1}
    lines = [_shared_reason(report.errors, reason, counts[reason]) for reason in sorted(shared)]
    lines += [str(skip) for skip in report.errors if skip.line or skip.reason not in shared]
    _print_lines(console, [f"could not be read: {line}" for line in lines], "red")
    reasons = Counter(skip.reason for skip in report.skipped if not skip.error)
    for reason, count in reasons.most_common(_MOST_SHOWN):
        example = next(skip.path for skip in report.skipped if skip.reason == reason)
        line = f"{count} skipped: {reason} (e.g. {example})" if count > 1 else f"{example} skipped: {reason}"
        show(console, Text(clean(line), "dim"))


def _shared_reason(skipped: Sequence[Skipped], reason: str, count: int) -> str:
    """Return one line for all files that could not be read for the same reason."""
    paths = [skip.path for skip in skipped if skip.reason == reason]
    suffixes = sorted({PurePath(path).suffix.lower() for path in paths})
    kinds = f" ({', '.join(suffixes)})" if all(suffixes) else ""
    return f"{count} files{kinds}: {reason} (e.g. {paths[0]})"


def _grouped(notices: Sequence[Notice]) -> list[str]:
    """Return the notices as lines, many of one kind as one line, so that they do not hide the others."""
    counts = Counter(notice.code for notice in notices)
    lines = [f"{notice.subject}: {notice.message}" for notice in notices if counts[notice.code] < _GROUPED_FROM]
    for code in (code for code, count in counts.items() if count >= _GROUPED_FROM):
        first = next(notice for notice in notices if notice.code == code)
        lines.append(f"{counts[code]} times: {code.__doc__} (--json has all; e.g. {first.subject}: {first.message})")
    return lines


def _print_lines(console: Console, lines: Sequence[str], style: str) -> None:
    for line in lines[:_MOST_SHOWN]:
        show(console, Text(clean(line if len(line) <= _MOST_LINE else f"{line[:_MOST_LINE]}… (--json has all)"), style))
    if len(lines) > _MOST_SHOWN:
        show(console, Text(f"and {len(lines) - _MOST_SHOWN} more (--json has all)", "dim"))


def _print_samples(console: Console, report: IngestReport) -> None:
    if report.samples:
        console.print()
        show(console, Text("some of the chunks:", "bold"))
    for chunk in report.samples:
        text = " ".join(chunk.content.split())
        text = text if len(text) <= _MOST_TEXT else f"{text[:_MOST_TEXT]}…"
        show(console, Text(clean(f"  {chunk.chunk_id}"), "cyan").append(clean(f"  {text}"), ""))


def remember_folder(base: Path, ingested: Path, source_ids: Sequence[str]) -> None:
    """Record where the files of some sources are, for `search --open`."""
    from context_engine.ingest.files import IngestedFolders

    try:
        IngestedFolders(base).add(source_ids, ingested)
    except OSError as error:
        note(f"'search --open' will not find these files: {error.strerror or error}", style="yellow")


def keep_report(
    context: CliContext, report: IngestReport, *, domain: str, adapter: str, source_ids: Sequence[str]
) -> None:
    """Keep the report for `kb stats` and the pages; the documents are written, so a failure is only noted."""
    from context_engine.core.engine import SystemClock
    from context_engine.ingest.kept_reports import KeptReports, kept_report
    from context_engine.wiring.audit import caller_pseudonym

    by = caller_pseudonym(context.setup, context.data_dir, context.principal.id)
    at = SystemClock().now()
    kept = kept_report(report, at=at, by=by, domain=domain, adapter=adapter, source_ids=source_ids)
    try:
        KeptReports(context.base).add(kept)
    except OSError as error:
        note(f"the report is not kept: {error.strerror or error}", style="yellow")
