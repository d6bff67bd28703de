"""The reports of past runs of `ingest`, kept beside the embedded base: the last of each source whole, others short."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final, NamedTuple

from context_engine.core.models import utc_text
from context_engine.ingest.report import IngestReport
from context_engine.settings.data_dir import replace_file

FILE: Final = "ingests.json"
"""Name of the file in the folder of the embedded base."""

_FORM: Final = 1
_MOST_RUNS: Final = 100
_MOST_ROWS: Final = 2_000  # of each list of a whole report
_MOST_CHARS: Final = 500  # of a sentence
_COUNTED: Final = ("documents", "unchanged", "replaced", "removed", "refused", "chunks")


class ReportLine(NamedTuple):
    """A sentence of a report.

    Attributes:
        subject: the path of the file, perhaps with the place in it; or "source ID".
        code: of the notice; "skipped", "unread" or "refused" for what was not ingested.
    """

    subject: str
    code: str
    message: str


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptReport:
    """The report of one run.

    Attributes:
        at: when it ended, in UTC, as text.
        by: the pseudonym of who ran it; "" if nothing is recorded in a ledger.
        sources: the counts of each source: documents, unchanged, replaced, removed, refused, chunks.
        skipped, unread, notices: number of files or lines without a document, of those that should have had one, and
            of notices.
        is_whole: whether the lines are kept; False where a later run reported on all its sources.
        lines: what the report says.
        shared: paths of files that gave several documents.
        left_out: number of lines and shared paths that are not kept.
    """

    at: str
    by: str
    domain: str
    adapter: str
    elapsed_s: float
    files: int
    sources: Mapping[str, Mapping[str, int]]
    skipped: int
    unread: int
    notices: int
    is_whole: bool = True
    lines: tuple[ReportLine, ...] = ()
    shared: tuple[str, ...] = ()
    left_out: int = 0

    def summary(self) -> dict[str, Any]:
        """Return the counts as a JSON object, without the lines."""
        counted = ("at", "by", "domain", "adapter", "elapsed_s", "files", "skipped", "unread", "notices")
        return {**{name: getattr(self, name) for name in counted}, "sources": dict(self.sources)}

    def to_dict(self) -> dict[str, Any]:
        """Return everything as a JSON object."""
        lines = [line._asdict() for line in self.lines]
        return {
            **self.summary(),
            "is_whole": self.is_whole,
            "lines": lines,
            "shared": list(self.shared),
            "left_out": self.left_out,
        }

    def about(self, path: str) -> list[ReportLine]:
        """Return what the report says of a file."""
        return [line for line in self.lines if line.subject == path or line.subject.startswith(f"{path}:")]

    def gave_several(self, path: str) -> bool:
        """Return whether a file, or the archive that holds it, gave several documents."""
        return any(path == shared or path.startswith(f"{shared}/") for shared in self.shared)


def kept_report(
    report: IngestReport, *, at: datetime, by: str, domain: str, adapter: str, source_ids: Iterable[str]
) -> KeptReport:
    """Return the report of a run in the form that is kept.

    Args:
        source_ids: the sources that the run could write to.
    """
    lines = [
        *(ReportLine(each.path, "unread" if each.error else "skipped", each.reason) for each in report.skipped),
        *(ReportLine(each.document_id, "refused", str(each)) for each in report.refused),
        *(ReportLine(each.subject, str(each.code), each.message) for each in report.notices),
    ]
    shared = sorted(report.shared)
    return KeptReport(
        at=utc_text(at.replace(microsecond=0)),
        by=by,
        domain=domain,
        adapter=adapter,
        elapsed_s=round(report.elapsed_s, 3),
        files=report.files,
        sources={name: {key: report.sources.get(name, {}).get(key, 0) for key in _COUNTED} for name in source_ids},
        skipped=len(report.skipped),
        unread=len(report.errors),
        notices=len(report.notices),
        lines=tuple(line._replace(message=line.message[:_MOST_CHARS]) for line in lines[:_MOST_ROWS]),
        shared=tuple(shared[:_MOST_ROWS]),
        left_out=sum(max(0, len(rows) - _MOST_ROWS) for rows in (lines, shared)),
    )


class KeptReports:
    """The reports of a base, the newest first, in a JSON file; an unreadable file counts as empty.

    Args:
        base: the folder of the embedded base, which need not exist.
    """

    def __init__(self, base: Path) -> None:
        self._path = base / FILE

    def add(self, report: KeptReport) -> None:
        """Keep the report of a run, and shorten those that are no longer the last of any source.

        Raises:
            OSError: the file cannot be written.
        """
        self._write(list(_shortened([report, *self.all()]))[:_MOST_RUNS])

    def forget(self, source_ids: Collection[str]) -> None:
        """Drop the reports on sources; of a run that wrote to others too, only the counts of these stay.

        Raises:
            OSError: the file cannot be written.
        """
        reports = self.all()
        if any(not report.sources.keys().isdisjoint(source_ids) for report in reports):
            self._write([rest for report in reports if (rest := _without(report, source_ids)).sources])

    def _write(self, kept: Sequence[KeptReport]) -> None:
        text = json.dumps({"form": _FORM, "runs": [each.to_dict() for each in kept]}, ensure_ascii=False)
        replace_file(self._path, text.encode())

    def all(self) -> list[KeptReport]:
        """Return all reports, the newest first."""
        try:
            kept = json.loads(self._path.read_text("utf-8"))
            return [_report(row) for row in kept["runs"]] if kept["form"] == _FORM else []
        except (OSError, ValueError, TypeError, KeyError):
            return []

    def last(self) -> dict[str, KeptReport]:
        """Return the last report of each source."""
        return {source_id: report for report in reversed(self.all()) for source_id in report.sources}


def _report(row: Mapping[str, Any]) -> KeptReport:
    lines = tuple(ReportLine(**line) for line in row["lines"])
    return KeptReport(**{**row, "lines": lines, "shared": tuple(row["shared"])})


def _without(report: KeptReport, source_ids: Collection[str]) -> KeptReport:
    others = {name: counts for name, counts in report.sources.items() if name not in source_ids}
    return report if len(others) == len(report.sources) else replace(_without_lines(report), sources=others)


def _without_lines(report: KeptReport) -> KeptReport:
    return replace(report, is_whole=False, lines=(), shared=(), left_out=0)


def _shortened(reports: Sequence[KeptReport]) -> Iterator[KeptReport]:
    """Yield the reports, the newest first, each without its lines if newer ones report on all its sources."""
    reported = set[str]()
    for report in reports:
        is_last = not reported.issuperset(report.sources)
        reported.update(report.sources)
        yield report if is_last else _without_lines(report)
