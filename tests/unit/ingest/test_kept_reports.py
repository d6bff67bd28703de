"""Kept reports: the last of each source whole, others by their counts, a bounded number of them."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

from context_engine.core.models import Notice, NoticeCode
from context_engine.ingest.kept_reports import FILE, KeptReport, KeptReports, ReportLine, kept_report
from context_engine.ingest.loaded_document import Skipped
from context_engine.ingest.report import IngestReport, RefusedDocument

MORNING = datetime(2026, 3, 2, 10, tzinfo=UTC)
SOPS = {"documents": 4, "unchanged": 1, "replaced": 1, "removed": 0, "refused": 1, "chunks": 9}


def report_of(*source_ids: str, minute: int = 0, notices: int = 1) -> KeptReport:
    report = IngestReport(
        files=5,
        documents=4,
        chunks=9,
        unchanged=1,
        replaced=1,
        removed=0,
        skipped=(Skipped("a.bin", "is of an unknown kind", error=False), Skipped("b.pdf", "is encrypted")),
        notices=(Notice(NoticeCode.DOC_TYPE_ASSUMED, "c.md", "cut as 'default'"),) * notices,
        refused=(RefusedDocument("sops", "d", "2", "is too long"),),
        sources={"sops": SOPS},
        shared=frozenset({"rows.csv"}),
        elapsed_s=1.23456,
    )
    at = MORNING + timedelta(minutes=minute)
    return kept_report(report, at=at, by="p-1", domain="ORM", adapter="local", source_ids=source_ids)


def test_a_report_says_who_ran_what_and_what_became_of_each_source():
    report = report_of("sops", "web")
    assert report.summary() == {
        "at": "2026-03-02T10:00:00Z",
        "by": "p-1",
        "domain": "ORM",
        "adapter": "local",
        "elapsed_s": 1.235,
        "files": 5,
        "skipped": 2,
        "unread": 1,
        "notices": 1,
        "sources": {"sops": SOPS, "web": dict.fromkeys(SOPS, 0)},
    }
    assert [line[:2] for line in report.lines] == [
        ("a.bin", "skipped"),
        ("b.pdf", "unread"),
        ("d", "refused"),
        ("c.md", "doc_type_assumed"),
    ]


def test_what_is_said_of_a_file_is_found_by_its_path():
    report = report_of("sops")
    assert report.about("b.pdf") == [ReportLine("b.pdf", "unread", "is encrypted")]
    assert report.about("b") == []
    assert [report.gave_several(path) for path in ("rows.csv", "rows.csv/inner.csv", "rows.csv2", "c.md")] == [
        True,
        True,
        False,
        False,
    ]


def test_the_last_report_of_a_source_is_whole_and_earlier_ones_are_short(tmp_path: Path):
    kept = KeptReports(tmp_path / "base")
    assert kept.all() == [] and kept.last() == {}
    first, second, third = report_of("sops", "web"), report_of("sops", minute=1), report_of("sops", minute=2)
    for report in (first, second, third):
        kept.add(report)
    assert [report.at[14:16] for report in kept.all()] == ["02", "01", "00"]
    assert [report.is_whole for report in kept.all()] == [True, False, True], "the first is the last of 'web'"
    assert kept.all()[0] == third and kept.all()[1].lines == ()
    assert kept.all()[1].summary() == second.summary()
    assert kept.last() == {"sops": third, "web": first}


def test_their_number_and_length_are_bounded(tmp_path: Path):
    long = report_of("sops", notices=3_000)
    assert (len(long.lines), long.left_out, long.notices) == (2_000, 1_003, 3_000)
    kept = KeptReports(tmp_path)
    for minute in range(103):
        kept.add(report_of("sops", minute=minute, notices=0))
    assert len(kept.all()) == 100 and kept.last()["sops"].at == "2026-03-02T11:42:00Z"


def test_a_file_of_another_form_counts_as_empty(tmp_path: Path):
    kept = KeptReports(tmp_path)
    for text in ("", "[]", json.dumps({"form": 2, "runs": [{}]}), json.dumps({"form": 1, "runs": [{"at": "x"}]})):
        (tmp_path / FILE).write_text(text)
        assert kept.all() == []
    kept.add(report_of("sops"))
    assert list(kept.last()) == ["sops"]
